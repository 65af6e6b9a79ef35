"""Dependencies that all zones of a service share: the store, the event log, files and folders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from auctune.engine.base_facts import BaseFacts, Report
from auctune.engine.data.client import DataClient
from auctune.service.accounts.budgets import BudgetLocks
from auctune.service.datasets.repairer import VendorGateway
from auctune.service.files.repository import FileRepository
from auctune.service.jobs.quotes import QuoteStore
from auctune.service.storage import Committer, Store
from auctune.service.zones.core.zone import EventWriter

BaseProfiles = Mapping[str, BaseFacts]
"""Measured facts of a zone's base, by node type."""


@dataclass(frozen=True, slots=True)
class DataDirs:
    """Folders of a service: its data, and the cache of bases that are built on this machine."""

    data: Path
    cache: Path

    def work(self, zone: str) -> Path:
        """Return the folder of a zone's checkpoints and adapters."""
        return self.data / "work" / zone

    @property
    def logs(self) -> Path:
        """Folder of the logs of worker processes."""
        return self.data / "logs"

    @property
    def profiles(self) -> Path:
        """Folder of measured device profiles."""
        return self.data / "profiles"


@dataclass(frozen=True, slots=True)
class ZoneDependencies:
    """Dependencies that all zones of a service share.

    `report` is called with the progress of loading, `on_fatal_error` if a zone cannot continue;
    `lock` is the descriptor of a lock that worker processes hold too.
    """

    store: Store
    dirs: DataDirs
    recorder: EventWriter
    committer: Committer
    files: FileRepository
    data: DataClient
    budgets: BudgetLocks
    quotes: QuoteStore
    report: Report
    on_fatal_error: Callable[[Exception], None]
    lock: int | None
    now: Callable[[], float]
    vendor_gateway: VendorGateway
