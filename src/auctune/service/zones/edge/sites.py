"""An edge zone's sites, as an operator sees them: prices and use by slot, and who trains there."""

from typing import Any

from auctune.service.zones.edge.zone import EdgeZone


def site_table(zone: EdgeZone) -> dict[str, Any]:
    """`SiteTable` of the API."""
    zone.begin_slots()
    eris, clock, first = zone.eris, zone.clock, zone.state.slot
    market, ledger, prices = eris.market, eris.ledger, eris.prices(first)
    return {
        "zone": zone.name,
        "first_slot": first,
        "first_begins_at": clock.slot_start(first),
        "slot_seconds": clock.slot_seconds,
        "types": list(market.types),
        "sites": [
            {
                "id": site.id,
                "capacity": dict(site.capacity),
                "state": "lost" if site.id in zone.state.lost else "up",
            }
            for site in market.sites
        ],
        "price": prices.beta.tolist(),
        "used": ledger.used.tolist(),
        "traffic_price": prices.alpha.tolist(),
        "traffic_used_mb": ledger.traffic.tolist(),
        "traffic_mb_per_slot": market.traffic_mb_per_slot,
        "jobs": [
            {
                "job": job.id,
                "user": job.owner,
                "state": job.phase.value,
                "slots": [part.slot for part in job.plan.slots],
                "trained": list(job.trained),
                "torn": job.failed_slots,
            }
            for job in zone.state.jobs.values()
        ],
    }
