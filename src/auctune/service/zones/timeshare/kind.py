"""Zones of kind `timeshare`: jobs share one pool until each has reached its target loss."""

from typing import Any

from auctune.domain import Money
from auctune.engine.base_facts import Alone, Report, learn_base
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.runtime.nodes import NodeSettings
from auctune.service.config.timeshare import TimeshareConfig
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
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from auctune.service.zones.timeshare.state import TimeshareModel, TimeshareState, empty_model
from auctune.service.zones.timeshare.worker import TimeshareWorker
from auctune.service.zones.timeshare.zone import TimeshareZone
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.named import make_allocator

NODE_TYPE = "pool"
"""Node type of a timeshare zone: all its jobs share one pool."""


NUM_SLOTS = 10_080
"""Slots ahead that a deadline may be."""


class TimeshareLoader(LanguageZoneLoader[TimeshareConfig, TimeshareZone, TimeshareModel]):
    """Loads a timeshare zone."""

    fixed_settings = ("base", "price_per_second", "slot_seconds")

    def _current_settings(self) -> dict[str, Any]:
        entry = self.entry
        settings = {
            "price_per_second": str(entry.price_per_second),
            "allocator": entry.allocator,
            "memory_gb": entry.memory_gb,
        }
        return created_record(entry, settings, slot_epoch(entry, self.dependencies.now()))

    @property
    def _price(self) -> Money:
        return Money(self.recorded["price_per_second"])

    def _empty_model(self) -> TimeshareModel:
        return empty_model(self.recorded)

    def _zone(self, model: TimeshareModel) -> TimeshareZone:
        recorder = self.dependencies.recorder
        profile = self._base.profile
        return TimeshareZone(self.entry.name, model, self.clock, recorder, self._price, profile)

    def _gateway(self, actor: ZoneActor[TimeshareZone]) -> TimeshareGateway:
        entry = self.entry
        context = self._gateway_context(actor, NUM_SLOTS, share=1.0)
        profile, memory_gb = self._base.profile, entry.memory_gb
        if memory_gb is None:
            memory_gb = profile.memory_gb - profile.base_memory_gb
        return TimeshareGateway(context, entry.base, self._price, profile, memory_gb)

    def _worker(self, actor: ZoneActor[TimeshareZone]) -> TimeshareWorker:
        entry, memory_gb = self.entry, self.entry.memory_gb
        params = PoolParams(
            allocator=make_allocator(entry.allocator),
            estimator=Mixture(),
            quantum_seconds=self.clock.slot_seconds,
            memory_bytes=None if memory_gb is None else int(memory_gb * 1e9),
        )
        settings = pool_settings(entry, self.dependencies.dirs)
        profile = self._base.profile
        return TimeshareWorker(actor, self.clock, profile, settings, params, self.dependencies)


class TimeshareKind(ZoneKind[TimeshareConfig]):
    """Kind of timeshare zones."""

    config = TimeshareConfig
    projection = TimeshareState.projection
    loader = TimeshareLoader

    def check(self, entry: TimeshareConfig, place: str, now: float) -> None:
        read_optional_profile(entry.profile, entry)

    def profile(
        self, entry: TimeshareConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> BaseProfiles:
        profile, settings = read_optional_profile(entry.profile, entry), pool_settings(entry, dirs)
        return {NODE_TYPE: learn_base(settings, dirs.profiles, report, profile, alone)}


def pool_settings(entry: TimeshareConfig, dirs: DataDirs) -> NodeSettings:
    """Return the settings of the pool's process, and of the process that measures its base."""
    return node_settings(entry, dirs, entry.device)
