"""Time left, on a clock that only training and saving move."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from auctune.train.time_budget import (
    ANSWER_SECONDS,
    FIRST_SAVE_SECONDS,
    SAVE_MARGIN,
    ConditionalTimeBudget,
    NoTimeLimit,
    ThroughputEstimator,
    TimeBudget,
)


@dataclass
class Clock:
    time: float = 1000.0

    def __call__(self) -> float:
        return self.time


def train(
    clock: Clock,
    estimator: ThroughputEstimator,
    until: float,
    row_seconds: float,
    most: int = 8,
    first_seconds: Sequence[float] = (),
) -> int:
    """Rows trained in a slot whose rounds have `most` rows at most; then two tasks are saved."""
    deadline = estimator.until(until, num_tasks=2)
    total = 0
    while (rows := min(most, deadline.max_rows())) > 0:
        first = first_seconds[total : total + rows]
        clock.time += sum(first) + (rows - len(first)) * row_seconds
        deadline.record(rows)
        total += rows
    return total


@pytest.mark.parametrize("row_seconds", [0.001, 0.02, 0.3, 2.0])
@pytest.mark.parametrize("most", [1, 8, 10**6])
def test_a_slot_is_used_to_within_a_row_and_leaves_time_to_save(
    row_seconds: float, most: int
) -> None:
    clock = Clock()
    estimator = ThroughputEstimator(clock)
    for _ in range(4):
        end = clock.time + 10.0
        reserve = estimator.save_seconds(2)
        total = train(clock, estimator, end, row_seconds, most)
        assert clock.time <= end - reserve
        assert total >= (10.0 - reserve) / row_seconds - 2
        clock.time += 0.2
        estimator.record_save(2, 0.2)
        assert clock.time <= end
        clock.time = end


def test_rows_that_become_twice_as_slow_are_still_in_time() -> None:
    clock = Clock()
    estimator = ThroughputEstimator(clock)
    train(clock, estimator, clock.time + 10.0, 0.01, most=10**6)
    end = clock.time + 10.0
    reserve = estimator.save_seconds(2)
    train(clock, estimator, end, 0.02, most=10**6)
    assert clock.time <= end - reserve


@pytest.mark.parametrize("num_long", [1, 5, 20, 60])
def test_short_rows_after_long_ones_use_a_slot_to_within_two_long_rows(num_long: int) -> None:
    clock, long = Clock(), 0.1
    estimator = ThroughputEstimator(clock)
    end = clock.time + 10.0
    reserve = estimator.save_seconds(2)
    train(clock, estimator, end, 0.001, first_seconds=[long] * num_long)
    assert 0 <= end - reserve - clock.time <= 2 * long


@pytest.mark.parametrize("slow", [1.5, 30.0, 400.0])
def test_one_slow_row_does_not_end_training_for_good(slow: float) -> None:
    clock = Clock()
    estimator = ThroughputEstimator(clock)
    trained = []
    for slot in range(12):
        end = clock.time + 2.0
        trained.append(train(clock, estimator, end, slow if slot == 0 else 0.01))
        clock.time = max(clock.time, end)
        estimator.record_save(1, 0.01)
    assert trained[0] == 1
    assert trained[-1] > 150
    # What is found to be true again is believed again at once.
    assert estimator.row_seconds == pytest.approx(0.01, rel=0.1)


def test_the_slowest_save_of_late_is_what_is_kept_free() -> None:
    estimator = ThroughputEstimator(Clock())
    assert estimator.save_seconds(3) == ANSWER_SECONDS + SAVE_MARGIN * 3 * FIRST_SAVE_SECONDS
    for seconds in (0.01, 0.4, 0.02):
        estimator.record_save(1, seconds)
    assert estimator.save_seconds(3) == pytest.approx(ANSWER_SECONDS + SAVE_MARGIN * 3 * 0.4)
    # Those that were written together tell more than one that was written alone.
    estimator.record_save(4, 0.6)
    assert estimator.save_seconds(3) == pytest.approx(ANSWER_SECONDS + SAVE_MARGIN * 0.6)
    for _ in range(8):
        estimator.record_save(1, 0.02)
    assert estimator.save_seconds(1) == pytest.approx(ANSWER_SECONDS + SAVE_MARGIN * 0.02)


def test_slower_saves_of_fewer_tasks_count_as_they_were() -> None:
    estimator = ThroughputEstimator(Clock())
    estimator.record_save(4, 0.6)
    estimator.record_save(1, 5.0)
    assert estimator.save_seconds(3) == pytest.approx(ANSWER_SECONDS + SAVE_MARGIN * 5.0)


def test_while_something_goes_on_rounds_are_short_end_in_time_and_teach_nothing() -> None:
    clock = Clock()
    estimator = ThroughputEstimator(clock)
    assert ConditionalTimeBudget(estimator, lambda: True, clock.time + 9).max_rows() == 0
    estimator.record_round(1, 0.01)
    budget = ConditionalTimeBudget(estimator, lambda: True, clock.time + 1.0)
    rows = []
    while count := budget.max_rows():
        rows.append(count)
        clock.time += 0.02 * count
        budget.record(count)
    assert rows[0] == 25
    assert rows == sorted(rows, reverse=True)
    assert clock.time <= 1001.0
    assert estimator.row_seconds == pytest.approx(0.01)
    ended = ConditionalTimeBudget(estimator, lambda: False, clock.time + 9)
    assert ended.max_rows() == 0
    # Not even one row is short.
    estimator.record_round(1, 0.3)
    assert ConditionalTimeBudget(estimator, lambda: True, clock.time + 9).max_rows() == 0


def test_nothing_is_begun_after_the_end_and_an_empty_round_teaches_nothing() -> None:
    clock = Clock()
    estimator = ThroughputEstimator(clock)
    deadline = estimator.until(clock.time + 5.0, num_tasks=0)
    assert deadline.max_rows() == 1
    clock.time += 1.0
    deadline.record(0)
    assert estimator.row_seconds is None
    clock.time += 4.0
    assert deadline.max_rows() == 0


def test_without_an_end_rounds_are_of_any_size() -> None:
    unlimited: TimeBudget = NoTimeLimit()
    unlimited.record(3)
    assert unlimited.max_rows() is None
