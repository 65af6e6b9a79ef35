"""What all zones of a service are opened with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from auctune.run.base_facts import Report
from auctune.run.data.client import DataClient
from auctune.service.files.repository import FileRepository
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.quotes import QuoteStore
from auctune.service.storage import Committer, Store
from auctune.service.vendors.repairer import VendorGateway
from auctune.service.zones.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service keeps what it has.

    Attributes:
        data: its folder.
        cache: folder of bases that are built on this machine.
    """

    data: Path
    cache: Path


@dataclass(frozen=True, slots=True)
class Premises:
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
    place: Place
    recorder: Recorder
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
