"""Clocks of a run: time in slots since the job began, with a fraction."""

import time
from collections.abc import Callable
from typing import Protocol

from auctune.domain.checks import check_positive
from auctune.engine.unix_time import unix_time
from auctune.spot.job import Overhead, SpotJob


class SlotClock(Protocol):
    """The clock of a run.

    Attributes:
        is_real: whether time passes by itself, so that overheads can be measured.
        runs_while_down: whether it also runs while the run does not: slots may then be skipped.
    """

    is_real: bool
    runs_while_down: bool

    def start(self, now: float) -> None:
        """Set the time: 0, or the last recorded one of a resumed run."""
        ...

    def now(self) -> float:
        """Return the time."""
        ...

    def on_overhead(self, slots: float) -> None:
        """Note that a change of instances takes so much time by the job's model."""
        ...

    def on_trained(self, rows: int, count: int) -> None:
        """Note that `count` instances trained `rows` more rows."""
        ...

    def seconds_until(self, moment: float) -> float:
        """Return how long to wait at most before reading the clock again."""
        ...

    def sleep_until(self, moment: float) -> None:
        """Let time pass up to a moment."""
        ...


class WallClock:
    """Real time while the run goes on.

    Args:
        slot_seconds: length of a slot; it may be shorter than in the replayed market.
    """

    is_real = True
    runs_while_down = False

    def __init__(self, slot_seconds: float) -> None:
        check_positive(slot_seconds, "slot_seconds", "a number > 0")
        self.slot_seconds = slot_seconds
        self._seconds: Callable[[], float] = time.monotonic
        self._origin = self._seconds()

    def start(self, now: float) -> None:
        self._origin = self._seconds() - now * self.slot_seconds

    def now(self) -> float:
        return (self._seconds() - self._origin) / self.slot_seconds

    def on_overhead(self, slots: float) -> None:
        pass

    def on_trained(self, rows: int, count: int) -> None:
        pass

    def seconds_until(self, moment: float) -> float:
        return max(0.0, (moment - self.now()) * self.slot_seconds)

    def sleep_until(self, moment: float) -> None:
        time.sleep(self.seconds_until(moment))


class UnixClock(WallClock):
    """Real time since a fixed moment: deadlines stay where they are when a run is killed.

    The time is below 0 before slot 0.

    Args:
        begins: unix time of slot 0.
        slot_seconds: length of a slot.
        unix: returns unix time.
    """

    runs_while_down = True

    def __init__(
        self, begins: float, slot_seconds: float, unix: Callable[[], float] = unix_time
    ) -> None:
        super().__init__(slot_seconds)
        self._seconds, self._origin = unix, begins

    def start(self, now: float) -> None:
        pass


class ModelClock:
    """Time by the job's model: the cost of a run does not depend on how busy the machine is.

    A slot begins with its overhead; then n instances do H(n) of the workload in a slot (Kong et
    al., arXiv 2512.20967, eqs. 1 and 2). By total they do mu_1 H(n) after the deadline (eq. 7).

    Args:
        job: with the model.
        num_rows: rows that stand for the whole workload.
    """

    is_real = False
    runs_while_down = False

    def __init__(self, job: SpotJob, num_rows: int) -> None:
        self._job = job
        self._work_of_row = float(job.workload) / num_rows
        self._now = 0.0

    def start(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def on_overhead(self, slots: float) -> None:
        self._now += slots

    def on_trained(self, rows: int, count: int) -> None:
        if rows:
            throughput, overhead = float(self._job.scaling.throughput(count)), self._job.overhead
            if self._now >= self._job.deadline and isinstance(overhead, Overhead):
                throughput *= overhead.mu1
            self._now += rows * self._work_of_row / throughput

    def seconds_until(self, moment: float) -> float:
        # Time stands still until rows are trained, however long that takes.
        return float("inf")

    def sleep_until(self, moment: float) -> None:
        self._now = max(self._now, moment)
