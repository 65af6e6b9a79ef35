"""Loads a timeshare zone: log, actor and worker."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from auctune.device_profile import Profile
from auctune.domain import Money
from auctune.run.base_facts import BaseFacts
from auctune.run.executor import NodeSettings
from auctune.run.open_pool.messages import PoolSettings
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.zone import TIMESHARE
from auctune.service.dataset_inspector import DatasetInspector
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.training import Defaults
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.events import VERSION
from auctune.service.zones.core.gateway import GatewayContext
from auctune.service.zones.core.kind import BaseProfiles, LoadedZone
from auctune.service.zones.core.loader import ZoneLoader, ensure_unchanged
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from auctune.service.zones.timeshare.state import empty_model
from auctune.service.zones.timeshare.worker import TimeshareWorker
from auctune.service.zones.timeshare.zone import TimeshareZone

NODE_TYPE = "pool"

# Settings that jobs depend on.
_FIXED = ("base", "price_per_second", "slot_seconds")


class TimeshareLoader:
    """Opens zones of this kind.

    Args:
        dependencies: what all zones are opened with.
    """

    def __init__(self, dependencies: ZoneDependencies) -> None:
        self._dependencies = dependencies
        self._past = ZoneLoader(dependencies)

    async def open(self, entry: TimeshareConfig, facts: BaseProfiles) -> LoadedZone:
        """One zone, as it stood."""
        here = self._dependencies
        wanted = created_record(entry, here.now())
        record = self._past.recorded_settings(
            entry.name, wanted, partial(ensure_unchanged, entry.name, _FIXED)
        )
        memory = await self._past.restore(entry.name, lambda: empty_model(record))
        clock = SlotClock(record["epoch"], record["slot_seconds"], here.now)
        price = Money(record["price_per_second"])
        zone = TimeshareZone(entry.name, memory, clock, here.recorder, price)
        actor = self._past.start_actor(zone, memory, record)
        open_zone = self._open_zone(entry, record, actor, clock, facts[NODE_TYPE])
        profile = facts[NODE_TYPE].profile
        return LoadedZone(open_zone, self._worker(entry, open_zone, profile))

    def _open_zone(
        self,
        entry: TimeshareConfig,
        record: Mapping[str, Any],
        actor: ZoneActor[TimeshareZone],
        clock: SlotClock,
        base: BaseFacts,
    ) -> TimeshareGateway:
        here = self._dependencies
        defaults = Defaults(
            max_length=entry.max_length, share=1.0, context_tokens=base.context_tokens
        )
        inspector = DatasetInspector(entry.base_source, here.data, here.library)
        files = TrainingData(here.library, base.digest, inspector, defaults.length)
        price = Money(record["price_per_second"])
        profile, memory = base.profile, entry.memory_gb
        room = profile.memory_gb - profile.base_memory_gb if memory is None else memory
        context = GatewayContext(
            actor, clock, entry.slots, defaults, files, here.budgets, here.quotes
        )
        return TimeshareGateway(context, entry.base, price, profile, room)

    def _worker(
        self, entry: TimeshareConfig, zone: TimeshareGateway, profile: Profile
    ) -> TimeshareWorker:
        here, dirs = self._dependencies, self._dependencies.dirs
        settings = pool_settings(entry, dirs)
        memory = entry.memory_gb
        return TimeshareWorker(
            zone.actor,
            zone.clock,
            profile,
            PoolSettings(
                folder=str(dirs.work(entry.name)),
                base=settings.base,
                cache=settings.cache,
                epoch=zone.clock.epoch,
                unit_seconds=zone.clock.slot_seconds,
                allocator=entry.allocator,
                device=settings.device,
                dtype=settings.dtype,
                threads=settings.threads,
                memory_bytes=None if memory is None else int(memory * 1e9),
            ),
            here,
        )


def created_record(entry: TimeshareConfig, now: float) -> dict[str, Any]:
    """The body of the event with which a zone opens."""
    return {
        "version": VERSION,
        "kind": TIMESHARE,
        "base": entry.base,
        "price_per_second": str(entry.price_per_second),
        "allocator": entry.allocator,
        "memory_gb": entry.memory_gb,
        "epoch": now // entry.slot_seconds * entry.slot_seconds,
        "slot_seconds": entry.slot_seconds,
    }


def pool_settings(entry: TimeshareConfig, dirs: DataDirs) -> NodeSettings:
    """What the pool's process computes with."""
    return NodeSettings(
        base=entry.base_source,
        cache=str(dirs.cache),
        device=entry.device,
        dtype=entry.dtype,
        mode="exact",
        threads=entry.threads or 1,
        measure_seconds=entry.measure_seconds,
    )
