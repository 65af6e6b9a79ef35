"""Words of a user, taken out of a database for good.

The log is append-only, and triggers refuse every change of it. Erasure is the one exception: it
replaces bodies of events, with new checksums, in transactions in which the trigger is away.
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
    """Replace what events of jobs say; `erase_copies` must follow. On the committer's thread.

    Args:
        store: whose writer nobody else uses meanwhile.
        jobs: ids of some jobs that are over: other writes wait until all their events are read.
        without: returns the new body of an event; None: it stays as it is.

    Raises:
        DamagedLogError: if an event was altered by somebody else.
    """
    lift, restore = _TRIGGERS[store.writer.dialect.name]
    with store.writer.begin():
        changes = []
        for columns in store.writer.execute(EVENT_COLUMNS.where(events.c.job.in_(jobs))):
            row = read_row(*columns)
            body = without(row.body)
            if body is not None:
                new = checksum(row.seq, row.zone, row.slot, row.at, row.kind, row.job, body)
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
    """Leave nothing of what was replaced in the database's files. On the committer's thread.

    Snapshots that hold one of the jobs are removed: they are never needed.

    Args:
        store: whose writer nobody else uses meanwhile.
        jobs: ids of all jobs whose events were changed.
    """
    with store.writer.begin():
        _drop_snapshots(store, frozenset(jobs))
    store.purge()


def _drop_snapshots(store: Store, jobs: Collection[str]) -> None:
    stored = store.writer.execute(select(snapshots.c.zone, snapshots.c.seq)).all()
    for zone, seq in stored:
        here = (snapshots.c.zone == zone, snapshots.c.seq == seq)
        body = store.writer.execute(select(snapshots.c.body).where(*here)).scalar_one()
        if holds_any(body, jobs):
            store.writer.execute(delete(snapshots).where(*here))
