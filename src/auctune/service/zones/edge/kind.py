"""Zones of kind `edge`: an auction of slots of sites, where rows are trained on in place."""

from collections.abc import Mapping
from typing import Any

from auctune.domain import InputError
from auctune.edge import ByDuration, EdgeJob
from auctune.engine.base_facts import Alone, Report, learn_base
from auctune.engine.edge.worker import SitesSettings
from auctune.engine.runtime.ray.params import check_ray
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Profile
from auctune.service.config.edge import EdgeConfig, read_supply
from auctune.service.datasets.training_data import DatasetInspector, FileSizes
from auctune.service.jobs.training import Defaults
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.gateway import GatewayContext
from auctune.service.zones.core.kind import (
    LanguageZoneLoader,
    ZoneKind,
    created_record,
    node_settings,
    read_optional_profile,
    slot_epoch,
)
from auctune.service.zones.core.snapshots import Explainer
from auctune.service.zones.core.worker import BaseProfiles, DataDirs
from auctune.service.zones.edge.gateway import EdgeGateway, explain
from auctune.service.zones.edge.state import EdgeModel, EdgeState, SiteDatasetResolver, empty_model
from auctune.service.zones.edge.supply import EdgeSupply
from auctune.service.zones.edge.worker import EdgeWorker
from auctune.service.zones.edge.zone import EdgeZone

SITE = "site"
"""Node type of an edge zone: all its workers are alike."""


class EdgeLoader(LanguageZoneLoader[EdgeConfig, EdgeZone, EdgeModel]):
    """Loads an edge zone."""

    fixed_settings = ("base", "slot_seconds", "slots", "sites", "traffic_mb_per_slot")

    def _select_fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        # By the MB that is recorded for a chunk; see `moved_mb`. Its size, and what else prices
        # follow from, were settings once: a zone keeps what its log has.
        return {
            **super()._select_fixed(settings),
            "rows_move": settings["chunk_mb"] <= settings["traffic_mb_per_slot"],
            "pricing.reserve_value": settings["pricing"]["worth"],
        }

    def _current_settings(self) -> dict[str, Any]:
        return edge_record(self.entry, self.dependencies.now())

    def _prepare(self) -> None:
        self.dependencies.report(f"preparing zone {self.entry.name}", 0.0)
        profile, cache = self.profiles[SITE].profile, str(self.dependencies.dirs.cache)
        self.supply = build_supply(self.entry, self.recorded, self.clock, profile, cache)
        self._compile_kernels()

    def _compile_kernels(self) -> None:
        """Price a job, so that no request waits for kernels to be compiled or loaded."""
        site, *_ = self.supply.market.site_ids
        job = EdgeJob(
            id="warm-up",
            arrival=0,
            epochs=1,
            chunks={site: 2},
            worker=self.entry.worker,
            server=self.entry.server,
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
        shared, supply, base = self.dependencies, self.supply, self._base
        defaults = Defaults(
            max_length=self.entry.max_length,
            context_tokens=base.context_tokens,
            base_digest=base.digest,
        )
        inspector = DatasetInspector(self.entry.base_source, shared.data, shared.files)
        sizes = FileSizes(shared.files, base.digest, inspector, defaults.length)
        context = GatewayContext(
            actor,
            self.clock,
            supply.market.slots,
            defaults,
            SiteDatasetResolver(shared.files, sizes),
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
            niceness=entry.niceness,
        )
        return EdgeWorker(actor, self.clock, settings, self.dependencies)


def edge_record(entry: EdgeConfig, now: float) -> dict[str, Any]:
    """Return the body of the first event of an edge zone that is created now."""
    return created_record(entry, entry.record(), slot_epoch(entry, now))


def build_supply(
    entry: EdgeConfig,
    recorded: Mapping[str, Any],
    clock: SlotClock,
    profile: Profile,
    cache: str = "",
) -> EdgeSupply:
    """Return what a zone offers: sites as recorded, training speed as measured."""
    market, params = read_supply(recorded)
    return EdgeSupply(
        entry=entry, market=market, params=params, clock=clock, profile=profile, cache=cache
    )


class EdgeKind(ZoneKind[EdgeConfig]):
    """Kind of edge zones."""

    config = EdgeConfig
    projection = EdgeState.projection
    loader = EdgeLoader

    def check(self, entry: EdgeConfig, place: str, now: float) -> None:
        if entry.ray is not None:
            check_ray(f"{place}.ray")
        read_optional_profile(entry.profile, entry)

    def profile(
        self, entry: EdgeConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> BaseProfiles:
        profile = read_optional_profile(entry.profile, entry)
        # With a profile only the base's digest and context are read, which needs no GPU: the
        # machine of the service has none where sites are on a cluster.
        device = "cpu" if profile is not None and entry.ray is not None else entry.device
        settings = node_settings(entry, dirs, device)
        try:
            return {SITE: learn_base(settings, dirs.profiles, report, profile, alone)}
        except InputError as error:
            if error.place != "device" or entry.ray is None:
                raise
            found = "is missing, and this machine has no such GPU to measure"
            expected = "a file of `auctune profile`, measured on a machine of the cluster"
            raise InputError("profile", found, expected) from None
