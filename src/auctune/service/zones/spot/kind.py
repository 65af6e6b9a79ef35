"""Zones of kind `spot`, as the service knows a kind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from auctune.device_profile import read_profile
from auctune.domain import InputError
from auctune.run.base_facts import Alone, BaseFacts, Report, learn_base
from auctune.run.executor import NodeSettings
from auctune.run.rental.order import JobTerms
from auctune.service.config.spot import SpotConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.kind import BaseProfiles, LoadedZone, NoStartupTask
from auctune.service.zones.spot.loader import SpotLoader, load_market
from auctune.service.zones.spot.projection import SpotProjection
from auctune.service.zones.spot.state import SpotState

INSTANCE = "instance"
"""What the facts of a rented zone's base go by: all instances are alike."""


class SpotKind:
    """All that the service must know of rented zones."""

    @property
    def views(self) -> SpotProjection:
        """What readers see of their jobs."""
        return SpotState.projection

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle."""
        entry = _own(entry)
        try:
            entry.renting.read_policy()
            load_market(entry)
            _smallest(entry).job()
        except InputError as error:
            path = f"{place}.{error.place}"
            raise InputError(path, error.found, error.expected) from None
        if entry.profile is not None:
            read_profile(Path(entry.profile))

    @contextmanager
    def prepare(self, entries: Iterable[ZoneConfig]) -> Iterator[NoStartupTask]:
        """Their kernels are compiled at the first estimate, and kept."""
        yield NoStartupTask()

    def profile(
        self, entry: ZoneConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> dict[str, BaseFacts]:
        """What must be known of a zone's base on an instance; measured once on this machine."""
        entry = _own(entry)
        given = None if entry.profile is None else read_profile(Path(entry.profile))
        settings = instance_settings(entry, dirs)
        try:
            facts = learn_base(settings, dirs.profiles, report, given, alone)
        except InputError as error:
            if error.place != "device" or not entry.uses_external_cluster:
                raise
            found = "is missing, and this machine has no such GPU to measure"
            expected = "a file of `auctune profile`, measured on a machine of the cluster"
            raise InputError("profile", found, expected) from None
        return {INSTANCE: facts}

    async def open(
        self, entry: ZoneConfig, facts: BaseProfiles, dependencies: ZoneDependencies
    ) -> LoadedZone:
        """A zone as it stood."""
        return await SpotLoader(dependencies).open(_own(entry), facts[INSTANCE])


def instance_settings(entry: SpotConfig, dirs: DataDirs) -> NodeSettings:
    """Return the settings of the process on this machine that is asked about the base.

    With a profile only the base's digest and context are asked for, which need no GPU; the machine
    of the service has none where instances are on a cluster.
    """
    is_measured = entry.profile is None
    return NodeSettings(
        base=entry.base_source,
        cache=str(dirs.cache),
        device=entry.device if is_measured or not entry.uses_external_cluster else "cpu",
        dtype=entry.dtype,
        mode="exact",
        threads=entry.worker_threads,
        measure_seconds=entry.measure_seconds,
    )


def _smallest(entry: SpotConfig) -> JobTerms:
    """A job as small as can be, to see whether the settings make one."""
    table = None if entry.scaling is None else tuple(entry.scaling)
    return JobTerms(1.0, 1, 1.0, 1.0, entry.n_min, entry.n_max, entry.mu1, entry.mu2, table)


def _own(entry: ZoneConfig) -> SpotConfig:
    assert isinstance(entry, SpotConfig)
    return entry
