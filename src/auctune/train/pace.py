"""How much can be trained by a moment on the wall clock.

With s seconds a row, w seconds to save all tasks, and now the time, a round may have

    n = (until - w - now) / (2 s)

rows: half of what is left, so that rounds grow smaller towards the end, and one that is twice as
slow as those before it is still in time. Nothing is trained any more once n < 1. Both s and w are
learned from what the node has done so far. An s by which not one row can be trained would never be
learned better, whatever bad moment it comes from: only half of it is believed the next time.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

# Of a task's checkpoint, before one has been saved here.
FIRST_SAVE_SECONDS = 0.25
# Disks are uneven: what is kept free for saving, in times of the slowest of late.
SAVE_MARGIN = 1.5
# For the answer to be heard before the slot is over.
ANSWER_SECONDS = 0.05
ROUND_MARGIN = 2.0
REMEMBERED_SAVES = 8

Now = Callable[[], float]
"""Unix time."""


class TimeLeft(Protocol):
    """Whether there is time for another round of training."""

    def most_rows(self) -> int | None:
        """Rows that the round that begins now may have; none: any number; 0: there is no time."""
        ...

    def trained(self, rows: int) -> None:
        """The round that began last is over, and had so many rows."""
        ...


class Unlimited:
    """All the time in the world."""

    def most_rows(self) -> None:
        """Any number."""

    def trained(self, rows: int) -> None:
        """Makes no difference."""


class Pace:
    """What a node has learned of its own speed.

    Args:
        now: unix time.

    Attributes:
        row_seconds: of a row in a round, of late; none before the first.
    """

    def __init__(self, now: Now = time.time) -> None:
        self.now = now
        self.row_seconds: float | None = None
        self._saves: deque[float] = deque(maxlen=REMEMBERED_SAVES)

    def saved(self, seconds: float) -> None:
        """A checkpoint of one task was written in so many seconds."""
        self._saves.append(seconds)

    def save_seconds(self, num_tasks: int) -> float:
        """To keep free for the checkpoints of so many tasks, and to tell of them (w)."""
        return ANSWER_SECONDS + SAVE_MARGIN * num_tasks * max(
            self._saves, default=FIRST_SAVE_SECONDS
        )

    def ran(self, rows: int, seconds: float) -> None:
        """A round is over; a slower one counts at once, a quicker one by half."""
        latest = seconds / rows
        before = latest if self.row_seconds is None else self.row_seconds
        self.row_seconds = max(latest, (before + latest) / 2)

    def doubt(self) -> None:
        """By what was learned, no row fits where some should: next time, half of it counts."""
        assert self.row_seconds is not None
        self.row_seconds /= 2

    def until(self, moment: float, num_tasks: int) -> "Deadline":
        """The time left to train so many tasks that shall be saved by a moment, unix time."""
        return Deadline(self, moment - self.save_seconds(num_tasks))


class Deadline:
    """Time left until training has to end.

    Args:
        pace: of the node, which learns on the way.
        end: unix time.
    """

    def __init__(self, pace: Pace, end: float) -> None:
        self._pace = pace
        self._end = end
        self._began = pace.now()
        self._is_first = True

    def most_rows(self) -> int:
        """Rows of the round that begins now; 0 if there is no time for one."""
        self._began = self._pace.now()
        left = self._end - self._began
        if left <= 0:
            return 0
        # A first row says how long the others take.
        speed = self._pace.row_seconds
        rows = 1 if speed is None else int(left / (ROUND_MARGIN * speed))
        if rows == 0 and self._is_first:
            self._pace.doubt()
        self._is_first = False
        return rows

    def trained(self, rows: int) -> None:
        """The round is over; one without a row, as memory ran out, says nothing of speed."""
        if rows > 0:
            self._pace.ran(rows, self._pace.now() - self._began)
