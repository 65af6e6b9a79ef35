"""Erase a user's text from a database.

The log is append-only, and triggers refuse every change of it. Erasure is the one exception: it
replaces bodies of events, with new checksums, in transactions that drop the trigger.
"""

from collections.abc import Callable, Collection

from sqlalchemy import bindparam, delete, select, update

from auctune.service.storage.engine import Store
from auctune.service.storage.event_log import EVENT_COLUMNS, checksum, read_row
from auctune.service.storage.snapshots import holds_any
from auctune.service.storage.tables import events, snapshots

_TRIGGERS = {
    "sqlite": (
        "DROP TRIGGER events_refuse_update",
        "CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events is append-only'); END",
    ),
    "postgresql": (
        "ALTER TABLE events DISABLE TRIGGER events_refuse_change",
        "ALTER TABLE events ENABLE TRIGGER events_refuse_change",
    ),
}


def erase_words(
    store: Store, jobs: Collection[str], without: Callable[[bytes], bytes | None]
) -> None:
    """Replace bodies of events, on the committer's thread; `erase_copies` must follow.

    `jobs` are a few jobs that are over: other writes wait until their events are read. `without`
    returns the new body of an event, or None if it does not change.
    """
    lift, restore = _TRIGGERS[store.writer.dialect.name]
    with store.writer.begin():
        changes = []
        for columns in store.writer.execute(EVENT_COLUMNS.where(events.c.job.in_(jobs))):
            row = read_row(columns)
            body = without(row.body)
            if body is not None:
                new = checksum(row.seq, row.zone, row.slot, row.at, row.type, row.job, body)
                changes.append({"of": row.seq, "to": body, "sum": new})
        if changes:
            store.writer.exec_driver_sql(lift)
            store.writer.execute(
                update(events)
                .where(events.c.seq == bindparam("of"))
                .values(body=bindparam("to"), checksum=bindparam("sum")),
                changes,
            )
            store.writer.exec_driver_sql(restore)


def erase_copies(store: Store, jobs: Collection[str]) -> None:
    """Remove all copies of replaced text from the database's files, on the committer's thread.

    Snapshots that hold one of the jobs are removed: a zone can be loaded without them.
    """
    jobs = frozenset(jobs)
    with store.writer.begin():
        for zone, seq in store.writer.execute(select(snapshots.c.zone, snapshots.c.seq)).all():
            here = (snapshots.c.zone == zone, snapshots.c.seq == seq)
            body = store.writer.execute(select(snapshots.c.body).where(*here)).scalar_one()
            if holds_any(body, jobs):
                store.writer.execute(delete(snapshots).where(*here))
    store.purge()
