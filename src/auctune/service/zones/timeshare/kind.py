"""Zones of kind `timeshare`, as the service knows a kind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from auctune.device_profile import read_profile
from auctune.run.base_facts import Alone, BaseFacts, Report, learn_base
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.kind import BaseProfiles, LoadedZone, NoStartupTask
from auctune.service.zones.timeshare.loader import NODE_TYPE, TimeshareLoader, pool_settings
from auctune.service.zones.timeshare.projection import TimeshareProjection
from auctune.service.zones.timeshare.state import TimeshareState


class TimeshareKind:
    """All that the service must know of timeshare zones."""

    @property
    def views(self) -> TimeshareProjection:
        """What readers see of their jobs."""
        return TimeshareState.projection

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle."""
        profile = _own(entry).profile
        if profile is not None:
            read_profile(Path(profile))

    @contextmanager
    def prepare(self, entries: Iterable[ZoneConfig]) -> Iterator[NoStartupTask]:
        """Prepare nothing."""
        yield NoStartupTask()

    def profile(
        self, entry: ZoneConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> dict[str, BaseFacts]:
        """What must be known of a zone's base; measured once on this machine."""
        entry, kept = _own(entry), dirs.profiles
        profile = None if entry.profile is None else read_profile(Path(entry.profile))
        settings = pool_settings(entry, dirs)
        return {NODE_TYPE: learn_base(settings, kept, report, profile, alone)}

    async def open(
        self, entry: ZoneConfig, facts: BaseProfiles, dependencies: ZoneDependencies
    ) -> LoadedZone:
        """A zone as it stood."""
        return await TimeshareLoader(dependencies).open(_own(entry), facts)


def _own(entry: ZoneConfig) -> TimeshareConfig:
    assert isinstance(entry, TimeshareConfig)
    return entry
