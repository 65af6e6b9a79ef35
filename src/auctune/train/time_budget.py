"""How many rows can be trained until a moment on the wall clock.

With s seconds a row, w seconds to save all tasks, and now the time, a round may have

    n = (until - w - now) / (2 s)

rows: half of the remaining time, so that rounds grow smaller towards the end, and one that is twice
as slow as those before it is still in time. Training ends once n < 1. Both s and w are estimated
from what the node has measured; rows that are only evaluated count as less than one, by their cost.
If by the estimate not even one row fits, it is halved for the next time: otherwise one slow
measurement would stop training for good.

Rows are counted, not their tokens: whether one more row fits depends on the next row, which only
the trainer knows, and a row's time does not grow with its tokens alone. So rounds of short rows
after long ones are smaller than they could be, until s has followed. Training is never late for
it, and what a slot loses at its end is the time of two of the slowest rows at most.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

# Of a task's checkpoint, before one has been saved here.
FIRST_SAVE_SECONDS = 0.25
# Disks are uneven: time reserved for saving, in multiples of the slowest recent one.
SAVE_MARGIN = 1.5
# For the answer to arrive before the slot is over.
ANSWER_SECONDS = 0.05
ROUND_MARGIN = 2.0
REMEMBERED_SAVES = 8
_SHORT_ROUND_SECONDS = 0.25

Now = Callable[[], float]
"""Unix time."""


class TimeBudget(Protocol):
    """Limit on the rows of each round of training."""

    def max_rows(self) -> int | None:
        """Return the maximum rows of the round that begins now; 0 ends training, None: no limit."""
        ...

    def record(self, rows: float) -> None:
        """Record that the last round is over and had a number of rows."""
        ...


class NoTimeLimit:
    """Time budget without a limit."""

    def max_rows(self) -> None:
        """Return `None`."""

    def record(self, rows: float) -> None:
        """Ignore the round."""


NO_TIME_LIMIT = NoTimeLimit()


class ThroughputEstimator:
    """Estimates of a node's speed, from its rounds and saves.

    Args:
        now: unix time.

    Attributes:
        row_seconds: recent seconds of a row in a round, or `None` before the first.
    """

    def __init__(self, now: Now = time.time) -> None:
        self.now = now
        self.row_seconds: float | None = None
        self._saves: deque[tuple[int, float]] = deque(maxlen=REMEMBERED_SAVES)

    def record_save(self, num_tasks: int, seconds: float) -> None:
        """Record the time of the checkpoints of a number of tasks, which are written together."""
        self._saves.append((num_tasks, seconds))

    def save_seconds(self, num_tasks: int) -> float:
        """Return the time to reserve for the checkpoints of a number of tasks (w)."""
        # Fewer tasks tell how long more would take only where no save of as many does.
        is_known = any(count >= num_tasks for count, _ in self._saves)
        longest = max(
            (seconds * (1 if is_known else num_tasks / count) for count, seconds in self._saves),
            default=FIRST_SAVE_SECONDS * num_tasks,
        )
        return ANSWER_SECONDS + SAVE_MARGIN * longest

    def record_round(self, rows: float, seconds: float) -> None:
        """Record a round: a slower one counts fully, a faster one by half."""
        latest = seconds / rows
        before = latest if self.row_seconds is None else self.row_seconds
        self.row_seconds = max(latest, (before + latest) / 2)

    def halve_estimate(self) -> None:
        """Halve the seconds of a row, after an estimate by which no row fits."""
        assert self.row_seconds is not None
        self.row_seconds /= 2

    def until(self, moment: float, num_tasks: int) -> "SlotTimeBudget":
        """Return the budget to train tasks and to save them by a moment, unix time."""
        return SlotTimeBudget(self, moment - self.save_seconds(num_tasks))


class ConditionalTimeBudget:
    """Time budget while a condition holds, until a moment; its rounds are short and teach nothing.

    Args:
        estimator: of the node, as far as it knows.
        goes_on: the condition.
        until: unix time at which no round may still run.
    """

    def __init__(
        self, estimator: ThroughputEstimator, goes_on: Callable[[], bool], until: float
    ) -> None:
        self._estimator, self._goes_on, self._until = estimator, goes_on, until

    def max_rows(self) -> int:
        row_seconds = self._estimator.row_seconds
        if not row_seconds or not self._goes_on():
            return 0
        remaining = (self._until - self._estimator.now()) / ROUND_MARGIN
        return max(0, int(min(_SHORT_ROUND_SECONDS, remaining) / row_seconds))

    def record(self, rows: float) -> None:
        """Ignore the round: other threads work beside it."""


class SlotTimeBudget:
    """Time budget until training has to end.

    Args:
        estimator: of the node; it is updated by each round.
        end: unix time.
    """

    def __init__(self, estimator: ThroughputEstimator, end: float) -> None:
        self._estimator = estimator
        self._end = end
        self._round_start = estimator.now()
        self._is_first = True

    def max_rows(self) -> int:
        self._round_start = self._estimator.now()
        remaining = self._end - self._round_start
        if remaining <= 0:
            return 0
        # The first row measures the others.
        row_seconds = self._estimator.row_seconds
        rows = 1 if row_seconds is None else int(remaining / (ROUND_MARGIN * row_seconds))
        if rows == 0 and self._is_first:
            self._estimator.halve_estimate()
        self._is_first = False
        return rows

    def record(self, rows: float) -> None:
        # A round without rows, when memory ran out, measures nothing.
        if rows > 0:
            self._estimator.record_round(rows, self._estimator.now() - self._round_start)
