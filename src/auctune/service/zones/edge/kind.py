"""Zones of kind `edge`: an auction of slots of sites, where data are trained on in place."""

from collections.abc import Mapping
from typing import Any

from auctune.edge import ByDuration, EdgeJob
from auctune.run.open_sites.messages import SitesSettings
from auctune.run.runtime.ray.params import check_ray
from auctune.service.config.edge import EdgeConfig, read_supply
from auctune.service.jobs.training import Defaults
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.explainer import Explainer
from auctune.service.zones.core.gateway import GatewayContext
from auctune.service.zones.core.kind import ZoneKind
from auctune.service.zones.core.loader import ZoneLoader, created_record, slot_epoch
from auctune.service.zones.edge.explainer import explain
from auctune.service.zones.edge.gateway import EdgeGateway
from auctune.service.zones.edge.site_datasets import SiteDatasetResolver
from auctune.service.zones.edge.state import EdgeModel, EdgeState, empty_model
from auctune.service.zones.edge.supply import EdgeSupply
from auctune.service.zones.edge.worker import EdgeWorker
from auctune.service.zones.edge.zone import EdgeZone

# Small networks need other settings than adapters of language models.
_DEFAULTS = Defaults(epochs=5, batch_size=64, learning_rate=0.05)


class EdgeLoader(ZoneLoader[EdgeConfig, EdgeZone, EdgeModel]):
    """Loads an edge zone."""

    fixed_settings = (
        "base", "slot_seconds", "slots", "sites", "traffic_mb_per_slot", "chunk_mb", "pricing",
    )  # fmt: skip

    def _current_settings(self) -> dict[str, Any]:
        return edge_record(self.entry, self.dependencies.now())

    def _prepare(self) -> None:
        self.dependencies.report(f"preparing zone {self.entry.name}", 0.0)
        self.supply = build_supply(self.entry, self.recorded, self.clock)
        self._compile_kernels()

    def _compile_kernels(self) -> None:
        """Price a job, so that no request waits for kernels to be compiled or loaded."""
        site, *_ = self.supply.market.site_ids
        job = EdgeJob(
            id="warm-up",
            arrival=0,
            epochs=1,
            chunks={site: 2},
            worker=self.supply.worker,
            server=self.supply.server,
            chunks_per_worker_slot=1.0,
            parameter_mb=0.0,
            utility=ByDuration((1.0,)),
        )
        self._empty_model().mechanism.quote(job, 0)

    def _empty_model(self) -> EdgeModel:
        return empty_model(self.recorded)

    def _zone(self, model: EdgeModel) -> EdgeZone:
        return EdgeZone(self.entry.name, self.supply, model, self.dependencies.recorder)

    def _gateway(self, actor: ZoneActor[EdgeZone]) -> EdgeGateway:
        shared, supply = self.dependencies, self.supply
        files = SiteDatasetResolver(shared.files, shared.data)
        context = GatewayContext(
            actor,
            self.clock,
            supply.market.slots,
            _DEFAULTS,
            files,
            shared.budgets,
            shared.quotes,
        )
        explainer = Explainer(self._empty_model, self.log, self.snapshots, explain)
        return EdgeGateway(context, supply, explainer)

    def _worker(self, actor: ZoneActor[EdgeZone]) -> EdgeWorker:
        entry = self.entry
        settings = SitesSettings(
            folder=str(self.dependencies.dirs.work(entry.name)),
            sites={site.id: dict(site.capacity) for site in self.supply.market.sites},
            ray="" if entry.ray is None else entry.ray.address,
            device=entry.device,
        )
        return EdgeWorker(actor, self.clock, settings, self.dependencies)


def edge_record(entry: EdgeConfig, now: float) -> dict[str, Any]:
    """Return the body of the first event of an edge zone that is created now."""
    return created_record(entry, entry.record(), slot_epoch(entry, now))


def build_supply(entry: EdgeConfig, recorded: Mapping[str, Any], clock: SlotClock) -> EdgeSupply:
    """Return what a zone offers: sites as recorded, training speed as configured now."""
    market, params = read_supply(dict(recorded))
    return EdgeSupply(
        model=entry.base,
        market=market,
        params=params,
        clock=clock,
        worker=entry.worker,
        server=entry.server,
        samples_per_second=entry.samples_per_second,
        step_seconds=entry.step_seconds,
        spare=entry.headroom,
        momentum=entry.momentum,
    )


class EdgeKind(ZoneKind[EdgeConfig]):
    """Kind of edge zones. They need no profile: their settings say how fast a site trains."""

    config = EdgeConfig
    projection = EdgeState.projection
    loader = EdgeLoader

    def check(self, entry: EdgeConfig, place: str, now: float) -> None:
        check_ray(f"{place}.kind")
