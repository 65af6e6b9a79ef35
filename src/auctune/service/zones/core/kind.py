"""What a kind of zone provides, and what all zones are loaded with."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from auctune.run.base_facts import Alone, BaseFacts, Report
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.gateway import AnyGateway
from auctune.service.zones.core.projection import EventMessage
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.worker import ZoneWorker

BaseProfiles = Mapping[str, BaseFacts]
"""What was measured of a zone's base, by type of node."""


@dataclass(frozen=True, slots=True)
class LoadedZone:
    """A zone that is open, and what runs its jobs."""

    zone: AnyGateway
    worker: ZoneWorker[Any]


class StartupTask(Protocol):
    """Something that goes on beside the measuring of bases."""

    def wait(self, report: Report) -> None:
        """Until it is done.

        Args:
            report: told how far it is.
        """
        ...


class NoStartupTask:
    """A startup task of kinds that have nothing to prepare."""

    def wait(self, report: Report) -> None:
        """Return at once."""


class Projection(Protocol):
    """What readers see of jobs of this kind."""

    @property
    def messages(self) -> Mapping[str, EventMessage]:
        """How events are told to a job's owner, by kind; others are not."""
        ...

    def market(self, row: JobReadModel, clock: SlotClock) -> dict[str, Any]:
        """The market's part of a job: the fields of `MarketPart` of the API."""
        ...

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        """When a job is expected to be done, in unix time; none: that is not known."""
        ...


class ZoneKind(Protocol):
    """One kind of zone."""

    @property
    def views(self) -> Projection:
        """What readers see of its jobs."""
        ...

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle.

        Args:
            entry: of a zone of this kind.
            place: of its table, for errors.
            now: unix time.

        Raises:
            InputError: for the first thing that is wrong.
        """
        ...

    def prepare(self, entries: Iterable[ZoneConfig]) -> AbstractContextManager[StartupTask]:
        """Begin what can be done while bases are measured; all of it ends with the context."""
        ...

    def profile(
        self, entry: ZoneConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> BaseProfiles:
        """What must be known of a zone's base; measured once on this machine.

        Raises:
            InputError: for an unknown base or device, or a profile that cannot be used.
        """
        ...

    async def open(
        self, entry: ZoneConfig, facts: BaseProfiles, dependencies: ZoneDependencies
    ) -> LoadedZone:
        """A zone as it stood.

        Raises:
            InputError: if its settings are not those that it was opened with.
        """
        ...
