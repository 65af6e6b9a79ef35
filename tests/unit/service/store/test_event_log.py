"""Reading the log back: all of a zone in order, page by page, and the events of a job."""

import pytest

from auctune.service.store import Committer, EventLog, EventRow, Store, Unit
from auctune.service.store.tables import events
from support.store_rows import event_row, write

pytest_plugins = ["support.store_fixtures"]


@pytest.fixture
def log(store: Store, committer: Committer) -> EventLog:
    """Events 1 to 40: every third one in the south, every fifth one of job a or b."""
    rows = [
        event_row(
            seq,
            zone="south" if seq % 3 == 0 else "north",
            job=None if seq % 5 else "ab"[seq % 2],
        )
        for seq in range(1, 41)
    ]
    # The log's order is that of the numbers, not that of arrival.
    assert write(committer, Unit().insert(events, *reversed(rows))) == [None]
    return EventLog(store.reader)


@pytest.mark.parametrize("page", [1, 2, 12, 13, 14, 5000])
def test_events_of_a_zone_come_in_order_whatever_the_page(log: EventLog, page: int) -> None:
    found = list(log.of_zone("south", page=page))
    assert [event.seq for event in found] == list(range(3, 41, 3))
    assert found[0] == EventRow(**event_row(3, zone="south"))


def test_events_after_one_and_up_to_another_are_between_them(log: EventLog) -> None:
    assert [event.seq for event in log.of_zone("south", after=9, until=18)] == [12, 15, 18]
    assert [event.seq for event in log.of_zone("south", after=10, until=17, page=1)] == [12, 15]
    assert list(log.of_zone("south", after=39)) == []
    assert list(log.of_zone("east")) == []


def test_events_of_a_job_come_oldest_first_after_one_and_up_to_a_number(log: EventLog) -> None:
    assert [event.seq for event in log.of_job("b")] == [5, 15, 25, 35]
    assert [event.seq for event in log.of_job("b", after=5, limit=2)] == [15, 25]
    assert log.of_job("b", after=35) == ()
    assert {event.job for event in log.of_job("a")} == {"a"}


def test_the_last_number_is_that_of_the_newest_event(log: EventLog) -> None:
    assert (log.last_seq(), log.last_seq("south"), log.last_seq("east")) == (40, 39, 0)


def test_events_that_come_while_the_log_is_read_are_read_too(
    log: EventLog, committer: Committer
) -> None:
    reading = log.of_zone("south", page=2)
    first = next(reading)
    assert write(committer, Unit().insert(events, event_row(41, zone="south"))) == [None]
    assert [first.seq, *(event.seq for event in reading)] == [*range(3, 41, 3), 41]
