"""Base of the kinds of zones: what the service has to know of each kind.

A new kind is a subclass of `ZoneKind` in an installed package; see docs/how-to/add-a-zone-kind.md.
"""

from abc import ABC
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from auctune.device_profile import Profile, read_profile
from auctune.engine.base_facts import Alone, Report
from auctune.engine.runtime.nodes import NodeSettings
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig
from auctune.service.zones.core.dependencies import BaseProfiles, DataDirs
from auctune.service.zones.core.loader import ZoneLoader
from auctune.service.zones.core.projection import JobProjection
from auctune.service.zones.core.startup import StartupTask

C = TypeVar("C", bound=ZoneConfig)


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
        measure_seconds=entry.measure_seconds,
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
