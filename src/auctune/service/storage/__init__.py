"""The store of a service: an append-only event log, and tables beside it, in one transaction.

SQLite or PostgreSQL. One process owns the database, one thread of it writes
(`Committer`), any number read (`EventLog`, `Snapshots`, `Queries`).
"""

from auctune.service.storage.batch import WriteBatch
from auctune.service.storage.committer import Committer, CommitterParams, WriteResult, notify_all
from auctune.service.storage.engine import Store, open_readonly, open_store, upgrade
from auctune.service.storage.errors import StoreError, UnitError
from auctune.service.storage.event_log import EventLog, EventRow
from auctune.service.storage.queries import EntryRow, FileRow, JobRow, Page, Queries
from auctune.service.storage.snapshots import Snapshot, Snapshots

__all__ = [
    "Committer",
    "CommitterParams",
    "EntryRow",
    "EventLog",
    "EventRow",
    "FileRow",
    "JobRow",
    "Page",
    "Queries",
    "Snapshot",
    "Snapshots",
    "Store",
    "StoreError",
    "UnitError",
    "WriteBatch",
    "WriteResult",
    "notify_all",
    "open_readonly",
    "open_store",
    "upgrade",
]
