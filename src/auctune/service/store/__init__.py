"""The store of a service: an append-only event log, and tables beside it, in one transaction.

SQLite or PostgreSQL. One process owns the database, one thread of it writes
(`Committer`), any number read (`EventLog`, `Snapshots`, `Pages`).
"""

from auctune.service.store.committer import Committer, CommitterParams, Outcome, tell_all
from auctune.service.store.engine import Store, open_store, reading, upgrade
from auctune.service.store.errors import StoreError, UnitError
from auctune.service.store.event_log import EventLog, EventRow
from auctune.service.store.pages import EntryRow, FileRow, JobRow, Page, Pages
from auctune.service.store.snapshots import Snapshot, Snapshots
from auctune.service.store.unit import Unit

__all__ = [
    "Committer",
    "CommitterParams",
    "EntryRow",
    "EventLog",
    "EventRow",
    "FileRow",
    "JobRow",
    "Outcome",
    "Page",
    "Pages",
    "Snapshot",
    "Snapshots",
    "Store",
    "StoreError",
    "Unit",
    "UnitError",
    "open_store",
    "reading",
    "tell_all",
    "upgrade",
]
