"""Zones of kind `spot`: jobs rent instances of a spot market, up to a cap on their cost."""

from typing import Any

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.engine.base_facts import Alone, BaseFacts, Report, learn_base
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.spot.job_config import SpotJobSpec, overhead_fields
from auctune.engine.spot.traces import LoopedTrace
from auctune.engine.unix_time import SlotClock
from auctune.service.config.spot import SpotConfig
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.kind import (
    LanguageZoneLoader,
    ZoneKind,
    created_record,
    node_settings,
    read_optional_profile,
    slot_epoch,
)
from auctune.service.zones.core.worker import BaseProfiles, DataDirs
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.spot.state import SpotModel, SpotState, empty_model, learned_pace
from auctune.service.zones.spot.worker import SpotWorker
from auctune.service.zones.spot.zone import MIN_INSTANCES, SpotSupply, SpotZone, load_market

INSTANCE = "instance"
"""Node type of a spot zone: all its instances are alike."""


class SpotLoader(LanguageZoneLoader[SpotConfig, SpotZone, SpotModel]):
    """Loads a spot zone."""

    fixed_settings = ("base", "slot_seconds", "start", "market_slot_seconds", "market")

    def _current_settings(self) -> dict[str, Any]:
        entry = self.entry
        self.market = load_market(entry)
        settings = {
            "market": self.market.digest,
            "start": self.market.start,
            "market_slot_seconds": entry.replayed_seconds,
        }
        return created_record(entry, settings, slot_epoch(entry, self.dependencies.now()))

    def _prepare(self) -> None:
        self.dependencies.report(f"getting the estimates of zone {self.entry.name} ready", 0.0)
        self.supply = build_supply(self.entry, self.profiles[INSTANCE], self.market, self.clock)
        _compile_kernels(self.supply)

    def _empty_model(self) -> SpotModel:
        return empty_model(self.recorded)

    def _zone(self, model: SpotModel) -> SpotZone:
        return SpotZone(self.entry.name, self.supply, model, self.dependencies.recorder)

    def _gateway(self, actor: ZoneActor[SpotZone]) -> SpotGateway:
        return SpotGateway(self._gateway_context(actor, self.supply.num_slots), self.supply)

    def _worker(self, actor: ZoneActor[SpotZone]) -> SpotWorker:
        return SpotWorker(actor, self.supply, self.entry, self.dependencies)


def build_supply(
    entry: SpotConfig, base: BaseFacts, market: LoopedTrace, clock: SlotClock
) -> SpotSupply:
    """Return what a zone offers."""
    unit_cost = entry.on_demand_price * entry.replayed_seconds / 3600
    return SpotSupply(
        base=entry.base,
        profile=base.profile,
        spare=entry.headroom,
        start_seconds=entry.start_seconds,
        market=market,
        renting=entry.renting,
        clock=clock,
        num_slots=entry.num_slots,
        max_jobs=entry.max_jobs,
        n_max=entry.n_max,
        table=_scaling(entry),
        overhead=entry.overhead,
        micro_batch=entry.micro_batch,
        unit_cost=unit_cost,
        unit_price=unit_cost * (1.0 + entry.margin),
    )


class SpotKind(ZoneKind[SpotConfig]):
    """Kind of spot zones."""

    config = SpotConfig
    projection = SpotState.projection
    loader = SpotLoader

    def check(self, entry: SpotConfig, place: str, now: float) -> None:
        try:
            entry.renting.read_policy()
            load_market(entry)
            # The smallest job that the settings allow.
            SpotJobSpec(
                workload=1.0,
                deadline=1,
                hard_factor=1.0,
                value=1.0,
                n_min=MIN_INSTANCES,
                n_max=entry.n_max,
                table=_scaling(entry),
                **overhead_fields(entry.overhead),
            ).job()
        except InputError as error:
            path = f"{place}.{error.place}"
            raise InputError(path, error.found, error.expected) from None
        read_optional_profile(entry.profile, entry)

    def profile(
        self, entry: SpotConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> BaseProfiles:
        profile = read_optional_profile(entry.profile, entry)
        settings = instance_settings(entry, dirs)
        try:
            facts = learn_base(settings, dirs.profiles, report, profile, alone)
        except InputError as error:
            if error.place != "device" or not entry.uses_external_cluster:
                raise
            found = "is missing, and this machine has no such GPU to measure"
            expected = "a file of `auctune profile`, measured on a machine of the cluster"
            raise InputError("profile", found, expected) from None
        return {INSTANCE: facts}


def instance_settings(entry: SpotConfig, dirs: DataDirs) -> NodeSettings:
    """Return the settings of the process on this machine that measures the base.

    With a profile it only reads the base's digest and context, which needs no GPU: the machine of
    the service has none where instances are on a cluster.
    """
    is_measured = entry.profile is None
    device = entry.device if is_measured or not entry.uses_external_cluster else "cpu"
    return node_settings(entry, dirs, device)


def _scaling(entry: SpotConfig) -> tuple[float, ...] | None:
    return None if entry.scaling is None else tuple(entry.scaling)


def _compile_kernels(supply: SpotSupply) -> None:
    """Make an estimate, so that no request waits for kernels to be compiled or loaded."""
    pace, clock = learned_pace((), (), supply.start_seconds), supply.clock
    slots = supply.slot_range(clock.slot_start(4), 0, clock.slot_start(1))
    if slots:
        worth = JobValue(None, clock.slot_end(slots[-1]), clock.slot_end(slots[-1]))
        terms = supply.terms(Training("none"), DataSize(8, 16.0), worth, slots, pace.speed)
        supply.estimate(terms, slots.start, 0, pace)
