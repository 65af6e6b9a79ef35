"""Zones of kind `edge`, as the service knows a kind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from auctune.run.base_facts import Alone, BaseFacts, Report
from auctune.run.executor.cluster.params import check_ray
from auctune.service.config.edge import EdgeConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.edge.opening import EdgeOpening
from auctune.service.zones.edge.views import EdgeViews
from auctune.service.zones.kind import Facts, Opened
from auctune.service.zones.premises import Place, Premises


class NothingToDo:
    """There is nothing to wait for."""

    def wait(self, report: Report) -> None:
        """It is done."""


class EdgeZones:
    """All that the service must know of edge zones."""

    @property
    def views(self) -> EdgeViews:
        """What readers see of their jobs."""
        return EdgeViews()

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle."""
        check_ray(f"{place}.kind")

    @contextmanager
    def prepare(self, entries: Iterable[ZoneConfig]) -> Iterator[NothingToDo]:
        """Their kernels are compiled as they open, and kept."""
        yield NothingToDo()

    def profile(
        self, entry: ZoneConfig, place: Place, report: Report, alone: Alone
    ) -> dict[str, BaseFacts]:
        """Nothing: they have no base, and settings say how fast their model trains."""
        return {}

    async def open(self, entry: ZoneConfig, facts: Facts, premises: Premises) -> Opened:
        """A zone as it stood."""
        assert isinstance(entry, EdgeConfig)
        return await EdgeOpening(premises).open(entry)
