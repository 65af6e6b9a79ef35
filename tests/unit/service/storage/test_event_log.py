"""Reading the log back: all of a zone in order, page by page, and the events of a job."""

import pytest
from sqlalchemy import Column
from sqlalchemy.exc import DBAPIError

from auctune.service.storage import Committer, EventLog, EventRow, Store, WriteBatch, open_readonly
from auctune.service.storage.event_log import DamagedLogError
from auctune.service.storage.tables import events
from support.store_rows import event_row, write

pytest_plugins = ["support.store_fixtures"]


@pytest.fixture
def log(store: Store, committer: Committer) -> EventLog:
    """Events 1 to 40: every third one in the south, every fifth one of job a or b."""
    rows = [
        event_row(
            seq, zone="south" if seq % 3 == 0 else "north", job=None if seq % 5 else "ab"[seq % 2]
        )
        for seq in range(1, 41)
    ]
    # The log's order is that of the numbers, not that of arrival.
    assert write(committer, WriteBatch().insert(events, *reversed(rows))) == [None]
    return EventLog(store.reader)


@pytest.mark.parametrize("page", [1, 2, 12, 13, 14, 5000])
def test_events_of_a_zone_come_in_order_whatever_the_page(log: EventLog, page: int) -> None:
    found = list(log.read_zone("south", page=page))
    assert [event.seq for event in found] == list(range(3, 41, 3))
    written = event_row(3, zone="south")
    del written["version"], written["checksum"]
    assert found[0] == EventRow(**written)


def test_events_after_one_and_up_to_another_are_between_them(log: EventLog) -> None:
    assert [event.seq for event in log.read_zone("south", after=9, until=18)] == [12, 15, 18]
    assert [event.seq for event in log.read_zone("south", after=10, until=17, page=1)] == [12, 15]
    assert list(log.read_zone("south", after=39)) == []
    assert list(log.read_zone("east")) == []


def test_events_of_a_job_come_oldest_first_after_one_and_up_to_a_number(log: EventLog) -> None:
    assert [event.seq for event in log.read_job("b")] == [5, 15, 25, 35]
    assert [event.seq for event in log.read_job("b", after=5, limit=2)] == [15, 25]
    assert log.read_job("b", after=35) == ()
    (first, *_) = log.read_job("b")
    assert log.read_job("b", limit=1, type_=first.type) == (first,)
    assert log.read_job("b", type_="another") == ()
    assert {event.job for event in log.read_job("a")} == {"a"}


def test_the_last_number_is_that_of_the_newest_event(log: EventLog) -> None:
    assert (log.last_seq(), log.last_seq("south"), log.last_seq("east")) == (40, 39, 0)


def test_events_that_come_while_the_log_is_read_are_read_too(
    log: EventLog, committer: Committer
) -> None:
    reading = log.read_zone("south", page=2)
    first = next(reading)
    assert write(committer, WriteBatch().insert(events, event_row(41, zone="south"))) == [None]
    assert [first.seq, *(event.seq for event in reading)] == [*range(3, 41, 3), 41]


def test_zones_are_named_in_the_order_of_their_first_events(log: EventLog) -> None:
    assert log.zones() == ("north", "south")


def test_events_of_a_kind_are_counted_between_numbers(log: EventLog) -> None:
    south = list(log.read_zone("south", after=9, until=30))
    kinds = {event.type for event in south}
    assert sum(log.count("south", kind, 9, 30) for kind in kinds) == len(south) == 7
    assert log.count("south", "no such kind", 9, 30) == 0


def test_the_first_event_of_a_slot_or_later_is_found(log: EventLog) -> None:
    # A slot has ten numbers.
    assert [log.first_seq("north", slot) for slot in (0, 1, 3, 4, 5)] == [1, 10, 31, 40, None]
    assert [log.first_seq("south", slot) for slot in (0, 1, 4)] == [3, 12, None]
    assert log.first_seq("elsewhere", 0) is None


def test_a_log_is_read_while_another_owns_it_and_cannot_be_written(
    database: str, store: Store, committer: Committer
) -> None:
    with open_readonly(database) as reader:
        log = EventLog(reader)
        assert log.zones() == ()
        assert write(committer, WriteBatch().insert(events, event_row(1, zone="north"))) == [None]
        assert [event.seq for event in log.read_zone("north")] == [1]
        with pytest.raises(DBAPIError), reader.begin() as connection:
            connection.execute(events.insert(), [event_row(2)])
    assert write(committer, WriteBatch().insert(events, event_row(3))) == [None]


@pytest.mark.parametrize("column", list(events.c), ids=lambda column: column.name)
def test_an_event_that_was_altered_is_refused_with_its_number(
    store: Store, committer: Committer, column: Column[object]
) -> None:
    row = event_row(17, job="a")
    changed = row[column.name]
    row[column.name] = changed + b" " if isinstance(changed, bytes) else changed * 2
    assert write(committer, WriteBatch().insert(events, event_row(1), row)) == [None]
    log = EventLog(store.reader)
    with pytest.raises(DamagedLogError, match=rf"event {row['seq']} of zone {row['zone']}"):
        list(log.read_zone(row["zone"]))
    with pytest.raises(DamagedLogError):
        log.read_job(row["job"])
