"""What a kind of zone provides, and what all zones are loaded with."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from auctune.run.base_facts import Alone, BaseFacts, Report
from auctune.run.data.client import DataClient
from auctune.service.config.zone import ZoneConfig
from auctune.service.files.repository import FileRepository
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.quotes import QuoteStore
from auctune.service.storage import Committer, Store
from auctune.service.vendors.repairer import VendorGateway
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.gateway import OpenZone
from auctune.service.zones.core.projection import EventMessage
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.worker import ZoneWorker
from auctune.service.zones.core.zone import EventWriter


@dataclass(frozen=True, slots=True)
class DataDirs:
    """Where a service keeps what it has.

    Attributes:
        data: its folder.
        cache: folder of bases that are built on this machine.
    """

    data: Path
    cache: Path


@dataclass(frozen=True, slots=True)
class ZoneDependencies:
    """What all zones share.

    Attributes:
        store: the database.
        place: of data and cache.
        recorder: the log.
        committer: writes.
        library: files.
        data: the data process.
        turns: those of one budget pass one after the other.
        quotes: that were shown.
        report: told how far opening is.
        alarm: told if a zone cannot go on.
        lock: descriptor of the lock that nodes hold too; none: there is none.
        now: tells unix time.
        vendor_gateway: of external vendors.
    """

    store: Store
    place: DataDirs
    recorder: EventWriter
    committer: Committer
    library: FileRepository
    data: DataClient
    turns: BudgetTurns
    quotes: QuoteStore
    report: Report
    on_fatal_error: Callable[[Exception], None]
    lock: int | None
    now: Callable[[], float]
    vendor_gateway: VendorGateway


# A kind of zone; `auctune.service.zones.kinds` lists them.

BaseProfiles = Mapping[str, BaseFacts]
"""What was measured of a zone's base, by type of node."""


@dataclass(frozen=True, slots=True)
class LoadedZone:
    """A zone that is open, and what runs its jobs."""

    zone: OpenZone
    worker: ZoneWorker


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
        self, entry: ZoneConfig, place: DataDirs, report: Report, alone: Alone
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
