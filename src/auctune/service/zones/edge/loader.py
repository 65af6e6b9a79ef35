"""Loads an edge zone: sites, log, actor and worker."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from auctune.edge import ByDuration, EdgeJob
from auctune.run.open_sites.messages import SitesSettings
from auctune.service.config.edge import EdgeConfig, read_supply
from auctune.service.config.zone import EDGE
from auctune.service.jobs.training import Defaults
from auctune.service.zones.core.clock import Now, SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.events import VERSION
from auctune.service.zones.core.explainer import Explainer
from auctune.service.zones.core.gateway import GatewayContext
from auctune.service.zones.core.kind import LoadedZone
from auctune.service.zones.core.loader import ZoneLoader, ensure_unchanged
from auctune.service.zones.edge.explainer import explain
from auctune.service.zones.edge.gateway import EdgeGateway
from auctune.service.zones.edge.site_datasets import SiteDatasetResolver
from auctune.service.zones.edge.state import empty_model
from auctune.service.zones.edge.supply import EdgeSupply
from auctune.service.zones.edge.worker import EdgeWorker
from auctune.service.zones.edge.zone import EdgeZone

DEFAULTS = Defaults(epochs=5, batch_size=64, learning_rate=0.05)
"""Small networks are trained otherwise than adapters."""

# Settings that plans depend on.
_FIXED = ("base", "slot_seconds", "slots", "sites", "traffic_mb_per_slot", "chunk_mb", "pricing")


class EdgeLoader:
    """Opens zones of this kind.

    Args:
        dependencies: what all zones are opened with.
    """

    def __init__(self, dependencies: ZoneDependencies) -> None:
        self._dependencies = dependencies
        self._past = ZoneLoader(dependencies)

    async def open(self, entry: EdgeConfig) -> LoadedZone:
        """One zone, as it stood."""
        here = self._dependencies
        wanted = created_record(entry, here.now())
        record = self._past.recorded_settings(
            entry.name, wanted, partial(ensure_unchanged, entry.name, _FIXED)
        )
        fresh = partial(empty_model, dict(record))
        supply = build_supply(entry, record, here.now)
        here.report(f"preparing zone {entry.name}", 0.0)
        await asyncio.to_thread(_warm_up, record, supply)
        memory = await self._past.restore(entry.name, fresh)
        zone = EdgeZone(entry.name, supply, memory, here.recorder)
        actor = self._past.start_actor(zone, memory, record)
        files = SiteDatasetResolver(here.library, here.data)
        context = GatewayContext(
            actor, supply.clock, supply.market.slots, DEFAULTS, files, here.budgets, here.quotes
        )
        explainer = Explainer(fresh, self._past.log, self._past.snapshots, explain)
        open_zone = EdgeGateway(context, supply, explainer)
        return LoadedZone(open_zone, self._worker(entry, open_zone))

    def _worker(self, entry: EdgeConfig, zone: EdgeGateway) -> EdgeWorker:
        here, dirs = self._dependencies, self._dependencies.dirs
        settings = SitesSettings(
            folder=str(dirs.work(entry.name)),
            sites={site.id: dict(site.capacity) for site in zone.supply.market.sites},
            ray="" if entry.ray is None else entry.ray.address,
            device=entry.device,
        )
        return EdgeWorker(zone.actor, zone.clock, settings, here)


def created_record(entry: EdgeConfig, now: float) -> dict[str, Any]:
    """The body of the event with which a zone opens: all that its decisions follow from."""
    return {
        "version": VERSION,
        "kind": EDGE,
        "base": entry.base,
        **entry.record(),
        "epoch": now // entry.slot_seconds * entry.slot_seconds,
        "slot_seconds": entry.slot_seconds,
    }


def build_supply(entry: EdgeConfig, record: Mapping[str, Any], now: Now) -> EdgeSupply:
    """What a zone offers: sites as it opened with, speeds as the settings say now."""
    market, params = read_supply(dict(record))
    return EdgeSupply(
        model=entry.base,
        market=market,
        params=params,
        clock=SlotClock(record["epoch"], record["slot_seconds"], now),
        worker=entry.worker,
        server=entry.server,
        samples_per_second=entry.samples_per_second,
        step_seconds=entry.step_seconds,
        spare=entry.headroom,
        momentum=entry.momentum,
    )


def _warm_up(record: Mapping[str, Any], supply: EdgeSupply) -> None:
    """Price one job: kernels are compiled, or loaded, before anybody waits for them."""
    eris, (site, *_) = empty_model(dict(record)).mechanism, supply.market.site_ids
    job = EdgeJob(
        id="warm-up",
        arrival=0,
        epochs=1,
        chunks={site: 2},
        worker=supply.worker,
        server=supply.server,
        chunks_per_worker_slot=1.0,
        parameter_mb=0.0,
        utility=ByDuration((1.0,)),
    )
    eris.quote(job, 0)
