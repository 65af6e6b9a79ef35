"""The store of a service: an append-only event log and other tables, in SQLite or PostgreSQL.

One process owns the database, one of its threads writes (`Committer`), and any number of threads
read (`EventLog`, `Snapshots`, `Queries`).
"""

from auctune.service.storage.committer import BatchError, Committer, WriteBatch
from auctune.service.storage.engine import Store, StoreError, open_readonly, open_store, upgrade
from auctune.service.storage.event_log import EventLog, EventRow
from auctune.service.storage.queries import Page, Queries, Row, iter_pages
from auctune.service.storage.snapshots import Snapshot, Snapshots

__all__ = [
    "BatchError",
    "Committer",
    "EventLog",
    "EventRow",
    "Page",
    "Queries",
    "Row",
    "Snapshot",
    "Snapshots",
    "Store",
    "StoreError",
    "WriteBatch",
    "iter_pages",
    "open_readonly",
    "open_store",
    "upgrade",
]
