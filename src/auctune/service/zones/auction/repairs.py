"""Repairs of jobs' data: completed, or given to another vendor at the service's cost.

None of it changes what a job pays. Each function leaves mechanism, state and log of one mind.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from auctune.domain import Released, Replanned
from auctune.domain.data_size import DataSize
from auctune.service.zones.appraisal import VendorOffer
from auctune.service.zones.auction import plans
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.open_job import OpenJob
from auctune.service.zones.auction.repair import Repair
from auctune.service.zones.phase import Phase

if TYPE_CHECKING:
    from auctune.service.zones.auction.zone import AuctionZone


def is_waited_for(zone: "AuctionZone", name: str, repair: Repair) -> bool:
    """Whether a job is open and still waits for this repair."""
    job = zone.state.jobs.get(name)
    return job is not None and job.needs_repair and job.repair == repair


def note_repaired(
    zone: "AuctionZone",
    name: str,
    repair: Repair,
    file: str,
    size: DataSize,
    report: dict[str, Any],
) -> bool:
    """Record a repair and pay the vendor; return False if the job does not wait for it any more."""
    if not is_waited_for(zone, name, repair):
        return False
    body = {"file": file, "report": report, "size": size.to_record()}
    zone.record(AuctionKind.REPAIRED, name, body)
    return True


def change_vendor(
    zone: "AuctionZone", name: str, failed: Repair, why: str, offers: Sequence[VendorOffer]
) -> None:
    """Give a job's data to another vendor: the cheapest with whom its deadline can be kept.

    Its cells stay if the data are there in time for them, and others are sought if not. If there
    is no such vendor, the job is refunded.

    Args:
        zone: whose job it is.
        name: the job's.
        failed: what did not come about.
        why: for its owner.
        offers: of other vendors, as of now.
    """
    zone.begin_slots()
    if not is_waited_for(zone, name, failed):
        return
    job = zone.state.jobs[name]
    repairs = [_repair(zone, offer) for offer in sorted(offers, key=_by_cost)]
    if repairs and _is_in_time(repairs[0], job):
        _change(zone, job, failed, why, repairs[0])
    else:
        _plan_anew(zone, job, failed, why, repairs)


def _is_in_time(repair: Repair, job: OpenJob) -> bool:
    """Whether a job's cells, if it has some now, can stay."""
    return job.phase is Phase.PAUSED or all(cell.slot >= repair.ready for cell in job.cells)


def _plan_anew(
    zone: "AuctionZone", job: OpenJob, failed: Repair, why: str, repairs: Sequence[Repair]
) -> None:
    left, sought = job.cells_from(zone.state.slot + 1), None
    zone.apply_to_mechanism(Released(job.task, left))
    for repair in repairs:
        found, sought = plans.plan_rest(zone, job, ready=repair.ready)
        if found is not None:
            zone.apply_to_mechanism(
                Replanned(job.task, zone.state.slot + 1, (), found, refunded=False)
            )
            body = {**plans.moved(left, found), "why": why, "plan": sought}
            zone.record(AuctionKind.REPLANNED, job.id, body)
            _change(zone, job, failed, why, repair)
            return
    zone.record(AuctionKind.RELEASED, job.id, {**plans.moved(left, ()), "plan": sought})
    message = f"{why}; no other vendor could repair the data in time"
    zone.fail(job.id, "vendor_failed", message, None)


def _change(zone: "AuctionZone", job: OpenJob, failed: Repair, why: str, repair: Repair) -> None:
    body = {"failed": failed.vendor, "why": why, "repair": repair.to_record()}
    zone.record(AuctionKind.VENDOR_CHANGED, job.id, body)


def _repair(zone: "AuctionZone", offer: VendorOffer) -> Repair:
    ready = zone.state.slot + 1 + zone.clock.slots_for(offer.seconds)
    return Repair(offer.vendor, offer.price, ready, offer.reference)


def _by_cost(offer: VendorOffer) -> tuple[Any, float, str]:
    return offer.price, offer.seconds, offer.vendor
