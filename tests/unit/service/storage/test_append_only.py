"""The event log and the ledger refuse every change, whoever asks for it."""

import pytest
from sqlalchemy import Table
from sqlalchemy.exc import IntegrityError

from auctune.service.erasure import erase_words
from auctune.service.storage import BatchError, Committer, EventLog, Store, WriteBatch
from auctune.service.storage.tables import entries, events, jobs
from support.store_rows import job_unit, rows_of, write

pytest_plugins = ["support.store_fixtures"]

CHANGES = {
    "sqlite": (
        "UPDATE {table} SET at = at + 1",
        "DELETE FROM {table}",
        "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    ),
    "postgresql": (
        "UPDATE {table} SET at = at + 1",
        "DELETE FROM {table}",
        "TRUNCATE {table} CASCADE",
    ),
}


@pytest.mark.parametrize("table", [events, entries], ids=lambda table: table.name)
def test_no_statement_changes_or_removes_a_row(
    store: Store, committer: Committer, table: Table
) -> None:
    assert write(committer, job_unit(committer, "a")) == [None]
    before = rows_of(store, table)
    for change in CHANGES[store.writer.dialect.name]:
        # TRUNCATE's CASCADE reaches the ledger before the log.
        with pytest.raises(IntegrityError, match="is append-only"), store.writer.begin():
            store.writer.exec_driver_sql(change.format(table=table.name))
    assert rows_of(store, table) == before


@pytest.mark.parametrize("table", [events, entries], ids=lambda table: table.name)
def test_a_unit_that_would_change_a_row_fails(
    store: Store, committer: Committer, table: Table
) -> None:
    write(committer, job_unit(committer, "a"))
    before = rows_of(store, table)
    keys = {column.name: before[0][column.name] for column in table.primary_key}
    errors = write(
        committer,
        WriteBatch().upsert(table, {**before[0], "at": 0.0}),
        WriteBatch().remove(table, keys),
    )
    assert [type(error) for error in errors] == [BatchError, BatchError]
    assert rows_of(store, table) == before


def test_erasure_takes_words_out_of_events_and_the_log_stays_append_only(
    store: Store, committer: Committer
) -> None:
    write(committer, job_unit(committer, "a"), job_unit(committer, "b"))
    others = [row for row in rows_of(store, events) if row["job"] != "a"]
    erase = WriteBatch(then=lambda: erase_words(store, events.c.job == "a", lambda body: b"{}"))
    assert write(committer, erase) == [None]
    log = EventLog(store.reader)
    assert [event.body for event in log.read_job("a")] == [b"{}"]
    assert [row for row in rows_of(store, events) if row["job"] != "a"] == others
    with pytest.raises(IntegrityError, match="is append-only"), store.writer.begin():
        store.writer.exec_driver_sql("UPDATE events SET at = at + 1")


def test_other_tables_may_be_changed(store: Store, committer: Committer) -> None:
    write(committer, job_unit(committer, "a"))
    (job,) = rows_of(store, jobs)
    assert write(committer, WriteBatch().upsert(jobs, {**job, "status": "running"})) == [None]
    assert [row["status"] for row in rows_of(store, jobs)] == ["running"]
    assert write(committer, WriteBatch().remove(jobs, {"id": "a"})) == [None]
    assert rows_of(store, jobs) == []
