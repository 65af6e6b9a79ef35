"""Base of the kinds of zones and of their loaders: what the service has to know of each kind.

A new kind is a subclass of `ZoneKind` in an installed package; see docs/how-to/add-a-zone-kind.md.
Its loader restores a zone: recorded settings, model, actor, gateway and worker.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import structlog

from auctune.domain import InputError
from auctune.engine.base_facts import Alone, BaseFacts, Report, StartupTask
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Profile, read_profile
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.datasets.training_data import DatasetInspector, TrainingData
from auctune.service.jobs.training import Defaults
from auctune.service.storage.event_log import VERSION, EventLog
from auctune.service.storage.snapshots import Snapshots
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.gateway import AnyGateway, GatewayContext
from auctune.service.zones.core.projection import JobProjection
from auctune.service.zones.core.snapshots import created_event, replay_until
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.core.worker import BaseProfiles, DataDirs, ZoneDependencies, ZoneWorker
from auctune.service.zones.core.zone import Zone

_log = structlog.get_logger(__name__)

MEASURE_SECONDS, TINY_MEASURE_SECONDS = 60.0, 20.0
"""Time limit for measuring a device, without loading the base. On an idle core the toy takes less;
on a busy machine there are fewer rounds."""

C = TypeVar("C", bound=ZoneConfig)
Z = TypeVar("Z", bound=Zone[Any, Any])
M = TypeVar("M", bound=ZoneModel[Any, Any])


@dataclass(frozen=True, slots=True)
class LoadedZone:
    """A loaded zone: its request side, and the worker that runs its jobs."""

    zone: AnyGateway
    worker: ZoneWorker[Any]


class ZoneLoader(ABC, Generic[C, Z, M]):
    """Loads one zone; each kind builds the parts of its zones.

    Attributes:
        recorded: body of the zone's first event: the settings that its decisions follow from.
        clock: slots of the zone, by the recorded settings.
    """

    fixed_settings: ClassVar[tuple[str, ...]] = ()
    """Recorded settings that must not change while the zone has plans and prices."""

    def __init__(self, entry: C, profiles: BaseProfiles, dependencies: ZoneDependencies) -> None:
        self.entry, self.profiles, self.dependencies = entry, profiles, dependencies
        self.log = EventLog(dependencies.store.reader)
        self.snapshots = Snapshots(dependencies.store.reader)
        self.recorded: Mapping[str, Any]
        self.clock: SlotClock

    @abstractmethod
    def _current_settings(self) -> dict[str, Any]:
        """Return the body of the first event of a new zone; see `created_record`. May block."""

    def _select_fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {name: settings[name] for name in self.fixed_settings}

    def _prepare(self) -> None:
        """Prepare what the zone decides with, such as compiled kernels. May block."""

    @abstractmethod
    def _empty_model(self) -> M:
        """Return the model of a zone without events."""

    @abstractmethod
    def _zone(self, model: M) -> Z:
        """Return the zone of a restored model."""

    @abstractmethod
    def _gateway(self, actor: ZoneActor[Z]) -> AnyGateway:
        """Return the request side of the zone."""

    @abstractmethod
    def _worker(self, actor: ZoneActor[Z]) -> ZoneWorker[Z]:
        """Return the worker of the zone."""

    async def load(self) -> LoadedZone:
        """Load the zone as it was when it was stopped, or create it; settings may not change."""
        shared = self.dependencies
        self.recorded = await asyncio.to_thread(self._recorded_settings)
        self.clock = SlotClock(self.recorded["epoch"], self.recorded["slot_seconds"], shared.now)
        await asyncio.to_thread(self._prepare)
        model = await asyncio.to_thread(self._restore)
        zone = self._zone(model)
        if model.seq == 0:
            zone.record_created(self.recorded)
        zone.begin_slots()
        actor = ZoneActor(zone, shared.recorder, shared.on_fatal_error)
        return LoadedZone(self._gateway(actor), self._worker(actor))

    def _recorded_settings(self) -> Mapping[str, Any]:
        name, created = self.entry.name, created_event(self.entry.name, self.log)
        if created is not None:
            ensure_unchanged(name, {"kind": self.entry.kind}, {"kind": created.body["kind"]})
        current = self._current_settings()
        if created is None:
            return current
        ensure_unchanged(name, self._select_fixed(current), self._select_fixed(created.body))
        return created.body

    def _restore(self) -> M:
        name = self.entry.name
        self.dependencies.report(f"reading the log of zone {name}", 0.0)
        model, count = replay_until(name, self._empty_model, self.log, self.snapshots)
        _log.info("zone restored", zone=name, seq=model.seq, replayed_events=count)
        return model


L = TypeVar("L", bound=LanguageZoneConfig)


class LanguageZoneLoader(ZoneLoader[L, Z, M]):
    """Loads a zone whose jobs train adapters of a language model."""

    @property
    def _base(self) -> BaseFacts:
        """The base; its digest is the same on all types of nodes, its profile that of the first."""
        return next(iter(self.profiles.values()))

    def _gateway_context(
        self,
        actor: ZoneActor[Z],
        num_slots: int,
        *,
        share: float = 0.25,
        inspector: DatasetInspector | None = None,
    ) -> GatewayContext[Z, DatasetQuote]:
        """Return the context of the zone's gateway.

        A job takes at most the `share` of a node, if its request names none. By default the
        inspector has no vendors.
        """
        shared, entry, base = self.dependencies, self.entry, self._base
        if inspector is None:
            inspector = DatasetInspector(entry.base_source, shared.data, shared.files)
        defaults = Defaults(
            max_length=entry.max_length,
            share=share,
            context_tokens=base.context_tokens,
            base_digest=base.digest,
        )
        data = TrainingData(shared.files, base.digest, inspector, defaults.length)
        return GatewayContext(
            actor, self.clock, num_slots, defaults, data, shared.budgets, shared.quotes
        )


def created_record(entry: ZoneConfig, settings: Mapping[str, Any], epoch: float) -> dict[str, Any]:
    """Return the body of a zone's first event: all that its decisions follow from."""
    return {
        "version": VERSION,
        "kind": entry.kind,
        "base": entry.base,
        **settings,
        "epoch": epoch,
        "slot_seconds": entry.slot_seconds,
    }


def slot_epoch(entry: ZoneConfig, now: float) -> float:
    """Return the epoch of a zone that is created now: a multiple of its slot length."""
    return now // entry.slot_seconds * entry.slot_seconds


def ensure_unchanged(zone: str, current: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Check that settings are those that a zone was created with."""
    for name in dict.fromkeys((*current, *recorded)):
        now, before = current.get(name), recorded.get(name)
        if now != before:
            now, before = ("nothing" if value is None else value for value in (now, before))
            found = f"{now}, but the zone was created with {before}"
            raise InputError(f"zone {zone}: {name}", found, "that value, or a new zone")


class ZoneKind(ABC, Generic[C]):
    """A kind of zone: checks and profiles the settings of such zones, and loads them.

    Attributes:
        config: keys of such zones in auctune.toml; its field `kind` is the kind's name.
        projection: of their jobs, for the API.
        loader: loads one of them.
    """

    config: ClassVar[type[ZoneConfig]]
    projection: ClassVar[JobProjection[Any]]
    loader: ClassVar[type[ZoneLoader[Any, Any, Any]]]

    def check(self, entry: C, place: str, now: float) -> None:
        """Refuse settings that would fail in the middle of a start.

        `place` is the path of the zone's table in the settings.
        """

    def prepare(self, entries: Sequence[C]) -> StartupTask:
        """Start work that all zones of the kind require."""
        return StartupTask()

    def profile(self, entry: C, dirs: DataDirs, report: Report, alone: Alone) -> BaseProfiles:
        """Load or measure what is needed of a zone's base, by node type.

        `alone` waits until nothing else runs, before anything is measured.
        """
        return {}


def node_settings(
    entry: LanguageZoneConfig,
    dirs: DataDirs,
    device: str,
    mode: Literal["fused", "exact"] = "exact",
) -> NodeSettings:
    """Return the settings of a process that trains or measures the base of a zone."""
    return NodeSettings(
        base=entry.base_source,
        cache=str(dirs.cache),
        device=device,
        dtype=entry.dtype,
        mode=mode,
        threads=entry.worker_threads,
        niceness=entry.niceness,
        measure_seconds=TINY_MEASURE_SECONDS if entry.base == "tiny" else MEASURE_SECONDS,
        gradient_checkpointing=entry.gradient_checkpointing,
    )


def read_optional_profile(
    path: str | None, entry: LanguageZoneConfig, num_devices: int = 1
) -> Profile | None:
    """Read a profile of a zone's devices; return None if its settings name none.

    Raises:
        InputError: if it cannot be read, or was measured with another `gradient_checkpointing`
            than the zone's, or on another number of devices.
    """
    if path is None:
        return None
    profile = read_profile(Path(path))
    profile.check_settings(path, entry.gradient_checkpointing, num_devices)
    return profile
