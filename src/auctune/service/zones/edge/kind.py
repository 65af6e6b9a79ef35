"""Zones of kind `edge`, as the service knows a kind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from auctune.run.base_facts import Alone, BaseFacts, Report
from auctune.run.executor.cluster.params import check_ray
from auctune.service.config.edge import EdgeConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.kind import BaseProfiles, LoadedZone, NoStartupTask
from auctune.service.zones.edge.loader import EdgeLoader
from auctune.service.zones.edge.projection import EdgeProjection
from auctune.service.zones.edge.state import EdgeState


class EdgeKind:
    """All that the service must know of edge zones."""

    @property
    def views(self) -> EdgeProjection:
        """What readers see of their jobs."""
        return EdgeState.projection

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle."""
        check_ray(f"{place}.kind")

    @contextmanager
    def prepare(self, entries: Iterable[ZoneConfig]) -> Iterator[NoStartupTask]:
        """Their kernels are compiled as they open, and kept."""
        yield NoStartupTask()

    def profile(
        self, entry: ZoneConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> dict[str, BaseFacts]:
        """Nothing: they have no base, and settings say how fast their model trains."""
        return {}

    async def open(
        self, entry: ZoneConfig, facts: BaseProfiles, dependencies: ZoneDependencies
    ) -> LoadedZone:
        """A zone as it stood."""
        assert isinstance(entry, EdgeConfig)
        return await EdgeLoader(dependencies).open(entry)
