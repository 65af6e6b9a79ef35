"""Group commit: what shares a transaction, who fails, who is told what and when."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy import Connection, Table, event, func, select
from structlog.testing import capture_logs

from auctune.service.storage import BatchError, Committer, Store, StoreError, WriteBatch
from auctune.service.storage.committer import durable
from auctune.service.storage.tables import entries, events, files, jobs, meta
from support.store_rows import (
    entry_rows,
    event_row,
    file_row,
    held,
    job_row,
    job_unit,
    meta_unit,
    num_rows,
    rows_of,
    write,
    write_together,
)

pytest_plugins = ["support.store_fixtures"]


@contextmanager
def transactions(store: Store, table: Table) -> Iterator[list[int]]:
    """The number of rows that each transaction adds to a table, in a list that grows."""
    totals, added = [0], list[int]()

    def count(connection: Connection) -> None:
        total = connection.execute(select(func.count()).select_from(table)).scalar_one()
        added.append(total - totals[-1])
        totals.append(total)

    event.listen(store.writer, "commit", count)
    yield added
    event.remove(store.writer, "commit", count)


def _set(done: threading.Event, _: Exception | None) -> None:
    done.set()


def note(told: list[int], number: int, _: Exception | None) -> None:
    told.append(number)


def test_a_unit_is_stored_in_all_its_tables_when_it_is_told_so(
    store: Store, committer: Committer
) -> None:
    assert write(committer, job_unit(committer, "a", amount=7)) == [None]
    assert rows_of(store, events) == [event_row(1, job="a")]
    assert rows_of(store, jobs) == [job_row("a", 1)]
    assert [(row["account"], row["amount"]) for row in rows_of(store, entries)] == [
        ("user:ada", -7),
        ("market", 7),
    ]


def test_units_that_wait_together_are_one_transaction_up_to_the_limit(store: Store) -> None:
    with transactions(store, events) as added, Committer(store, max_batches=20) as committer:
        errors = write_together(committer, *(job_unit(committer, f"job{i}") for i in range(50)))
    assert errors == [None] * 50
    # The first is the unit that held the others up.
    assert added == [0, 20, 20, 10]
    assert num_rows(store, [events, jobs, entries]) == [50, 50, 100]


@pytest.mark.slow
def test_after_units_that_came_together_the_next_transaction_waits_for_more(store: Store) -> None:
    with transactions(store, meta) as added, Committer(store, window_seconds=1.0) as committer:
        write_together(committer, meta_unit("a"), meta_unit("b"))
        told: list[threading.Event] = []
        for name in ("c", "d", "e"):
            unit, done = meta_unit(name), threading.Event()
            unit.done = partial(_set, done)
            committer.submit(unit)
            told.append(done)
            # Time enough for a writer that waits for nothing.
            assert not done.wait(0.05)
        assert all(done.wait(30) for done in told)
    # Id and version are there before; the first unit that is written holds up the others.
    assert added == [2, 2, 3]


def test_units_are_told_in_the_order_in_which_they_were_submitted(store: Store) -> None:
    told: list[int] = []
    with Committer(store, max_batches=7) as committer:
        for number in range(100):
            unit = meta_unit(str(number))
            unit.done = partial(note, told, number)
            committer.submit(unit)
    assert told == list(range(100))


@pytest.mark.parametrize(
    "bad",
    [
        WriteBatch().insert(meta, {"name": "fine", "value": ""}).insert(events, event_row(1)),
        WriteBatch().insert(meta, {"name": "fine", "value": ""}).insert(jobs, job_row("b", seq=99)),
        WriteBatch().insert(events, event_row(2), event_row(2**63)),
        WriteBatch().insert(meta, {"name": "fine", "value": ""}, {"name": "a", "value": "\ud800"}),
    ],
    ids=["key", "reference", "range", "surrogate"],
)
def test_a_bad_unit_fails_alone_and_leaves_nothing(
    store: Store, committer: Committer, bad: WriteBatch
) -> None:
    write(committer, job_unit(committer, "a"))
    good = [meta_unit(f"good{number}") for number in range(6)]
    errors = write_together(committer, *good[:3], bad, *good[3:])
    assert [type(error) for error in errors if error] == [BatchError]
    assert isinstance(errors[3], BatchError)
    assert [row["name"] for row in rows_of(store, meta)] == [f"good{n}" for n in range(6)]
    assert num_rows(store, [events, jobs, entries]) == [1, 1, 2]
    assert committer.failure is None


def test_a_vital_unit_that_is_bad_takes_all_that_follow_with_it(store: Store) -> None:
    good = WriteBatch().insert(events, event_row(1))
    bad = WriteBatch(is_vital=True).insert(jobs, job_row("b", 77))
    built_on_it = WriteBatch().insert(events, event_row(3))
    with Committer(store) as committer:
        errors = write_together(committer, good, bad, built_on_it)
        assert [type(error) for error in errors] == [StoreError] * 3
        assert isinstance(committer.failure, StoreError)
    assert num_rows(store, [events]) == [0]


def test_an_error_says_what_was_wrong_and_quotes_no_row(store: Store, committer: Committer) -> None:
    write(committer, meta_unit("one", "a sealed bid"))
    wrong = {**job_row("b", 99), "body": b"a sealed bid"}
    for unit in (meta_unit("one", "a sealed bid"), WriteBatch().insert(jobs, wrong)):
        (error,) = write(committer, unit)
        assert error is not None
        assert "constraint" in str(error)
        assert "a sealed bid" not in str(error)
        assert error.__cause__ is None


def test_many_bad_units_among_good_ones_are_told_apart(store: Store, committer: Committer) -> None:
    units = [meta_unit(str(number // 2)) for number in range(40)]
    errors = write_together(committer, *units)
    assert [error is None for error in errors] == [True, False] * 20


def test_a_row_may_be_made_changed_and_removed_by_units_of_one_transaction(
    store: Store, committer: Committer
) -> None:
    def put(value: str) -> WriteBatch:
        return WriteBatch().upsert(meta, {"name": "a", "value": value})

    remove = WriteBatch().remove(meta, {"name": "a"})
    assert write_together(committer, put("1"), remove, meta_unit("a", "2"), put("3")) == [None] * 4
    assert rows_of(store, meta) == [{"name": "a", "value": "3"}]


def test_a_callback_that_fails_keeps_nothing_from_the_others(store: Store) -> None:
    def fail(_: Exception | None) -> None:
        raise RuntimeError("nobody is there")

    told: list[int] = []
    units = [meta_unit(str(number)) for number in range(3)]
    units[0].done = partial(note, told, 0)
    units[1].done = fail
    units[2].done = partial(note, told, 2)
    with Committer(store) as committer:
        for unit in units:
            committer.submit(unit)
    assert told == [0, 2]
    assert num_rows(store, [meta]) == [3]


def test_who_no_longer_waits_keeps_nothing_from_those_who_do(store: Store) -> None:
    async def leave(committer: Committer) -> None:
        waiting = asyncio.create_task(durable(committer, meta_unit("first")))
        # It has submitted its unit after this, and waits.
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    told: list[int] = []
    with capture_logs() as logs, Committer(store) as committer:
        with held(committer):
            asyncio.run(leave(committer))
        other = meta_unit("second")
        other.done = partial(note, told, 1)
        committer.submit(other)
    assert (told, logs) == ([1], [])
    assert num_rows(store, [meta]) == [2]


def test_submitting_blocks_while_too_many_wait(store: Store) -> None:
    third_in = threading.Event()
    with Committer(store, max_queue=2) as committer:

        def submit_third() -> None:
            committer.submit(meta_unit("third"))
            third_in.set()

        with held(committer):
            committer.submit(meta_unit("first"))
            committer.submit(meta_unit("second"))
            thread = threading.Thread(target=submit_third)
            thread.start()
            assert not third_in.wait(0.1)
        assert third_in.wait(30)
        thread.join()
    assert num_rows(store, [meta]) == [3]


def test_a_unit_may_be_submitted_by_a_callback_even_when_too_many_wait(store: Store) -> None:
    with Committer(store, max_queue=1) as committer:
        finished = threading.Event()

        def submit_two(_: Exception | None) -> None:
            for name in ("a", "b"):
                unit = meta_unit(name)
                if name == "b":
                    unit.done = lambda _: finished.set()
                committer.submit(unit)

        committer.submit(WriteBatch(submit_two))
        assert finished.wait(30)
    assert num_rows(store, [meta]) == [2]


def test_closing_writes_what_waits_and_refuses_the_rest(store: Store) -> None:
    committer = Committer(store)
    with held(committer):
        for number in range(30):
            committer.submit(meta_unit(str(number)))
    committer.close()
    assert num_rows(store, [meta]) == [30]
    with pytest.raises(StoreError, match="is being closed"):
        committer.submit(meta_unit("late"))
    committer.close()


def test_numbers_rise_without_reuse_across_threads_and_restarts(
    store: Store, committer: Committer
) -> None:
    taken: list[int] = []

    def take() -> None:
        for _ in range(500):
            first = committer.next_seq(3)
            taken.extend(range(first, first + 3))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 6001))

    committer.close()
    last = 0
    for unit, stored in (
        (WriteBatch().insert(events, event_row(6005)), 6005),
        (WriteBatch().upsert(files, file_row("f", 7000)), 7000),
        (WriteBatch().upsert(files, file_row("g", 6990)), 7000),
        (WriteBatch().insert(entries, *entry_rows(8000, 6005, 1)), 8001),
    ):
        with Committer(store) as again:
            assert again.next_seq() == last + 1
            assert write(again, unit) == [None]
        last = stored
    with Committer(store) as again:
        assert again.next_seq() == last + 1
