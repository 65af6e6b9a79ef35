"""What time it is in a job: slots since it began, with a fraction."""

import time
from collections.abc import Callable
from typing import Protocol

from auctune.domain.checks import check_positive
from auctune.run.unix_time import unix_time
from auctune.spot.job import SpotJob


class SlotClock(Protocol):
    """A clock that a run looks at.

    Attributes:
        is_real: whether time passes by itself, so that overheads can be measured by it.
        goes_on: whether it passes while the run is not there, too: slots may be missed then.
    """

    is_real: bool
    goes_on: bool

    def start(self, now: float) -> None:
        """Begin at a time: 0, or the last one on record of a run that goes on."""
        ...

    def now(self) -> float:
        """The time."""
        ...

    def hold(self, count: int, last: int) -> None:
        """From now on `count` instances are held, after `last` in the slot before."""
        ...

    def worked(self, rows: int, count: int) -> None:
        """`count` instances have trained so many rows since this was last told."""
        ...

    def seconds_until(self, moment: float) -> float:
        """How long one may wait before looking at the clock again."""
        ...

    def idle(self, moment: float) -> None:
        """Let time pass up to a moment, as nothing can be done before it."""
        ...


class WallClock:
    """Real time, at so many seconds a slot.

    Args:
        slot_seconds: how long a slot lasts here; it may be shorter than in the market replayed.
    """

    is_real = True
    goes_on = False

    def __init__(self, slot_seconds: float) -> None:
        check_positive(slot_seconds, "slot_seconds", "a number > 0")
        self.slot_seconds = slot_seconds
        self._origin = time.monotonic()

    def start(self, now: float) -> None:
        """See `SlotClock`."""
        self._origin = time.monotonic() - now * self.slot_seconds

    def now(self) -> float:
        """See `SlotClock`."""
        return (time.monotonic() - self._origin) / self.slot_seconds

    def hold(self, count: int, last: int) -> None:
        """Real time does not care."""

    def worked(self, rows: int, count: int) -> None:
        """Real time does not care."""

    def seconds_until(self, moment: float) -> float:
        """See `SlotClock`."""
        return max(0.0, (moment - self.now()) * self.slot_seconds)

    def idle(self, moment: float) -> None:
        """See `SlotClock`."""
        time.sleep(self.seconds_until(moment))


class UnixClock:
    """Real time since a moment: a deadline stays where it is, whoever is killed when.

    Args:
        begins: unix time of slot 0.
        slot_seconds: how long a slot lasts.
        unix: tells unix time.
    """

    is_real = True
    goes_on = True

    def __init__(
        self, begins: float, slot_seconds: float, unix: Callable[[], float] = unix_time
    ) -> None:
        check_positive(slot_seconds, "slot_seconds", "a number > 0")
        self._begins = begins
        self._slot_seconds = slot_seconds
        self._unix = unix

    def start(self, now: float) -> None:
        """Nobody sets this one."""

    def now(self) -> float:
        """See `SlotClock`; below 0 before slot 0."""
        return (self._unix() - self._begins) / self._slot_seconds

    def hold(self, count: int, last: int) -> None:
        """Real time does not care."""

    def worked(self, rows: int, count: int) -> None:
        """Real time does not care."""

    def seconds_until(self, moment: float) -> float:
        """See `SlotClock`."""
        return max(0.0, (moment - self.now()) * self._slot_seconds)

    def idle(self, moment: float) -> None:
        """See `SlotClock`."""
        time.sleep(self.seconds_until(moment))


class ModelClock:
    """Time as the model counts it: what a run costs does not depend on how busy a machine is.

    A slot begins with its overhead; after that n instances do H(n) of the workload a slot (Kong et
    al., arXiv 2512.20967, eqs. 1 and 2). After the deadline they do mu_1 H(n) (eq. 7).

    Args:
        job: whose model.
        num_rows: rows that stand for the whole workload.
    """

    is_real = False
    goes_on = False

    def __init__(self, job: SpotJob, num_rows: int) -> None:
        self._job = job
        self._work_of_row = float(job.workload) / num_rows
        self._now = 0.0

    def start(self, now: float) -> None:
        """See `SlotClock`."""
        self._now = now

    def now(self) -> float:
        """See `SlotClock`."""
        return self._now

    def hold(self, count: int, last: int) -> None:
        """See `SlotClock`; the overhead passes at once."""
        overhead = self._job.overhead
        if self._now < self._job.deadline and count > 0 and count != last:
            self._now += 1.0 - (overhead.mu1 if count > last else overhead.mu2)

    def worked(self, rows: int, count: int) -> None:
        """See `SlotClock`."""
        if rows:
            pace = float(self._job.scaling.throughput(count))
            if self._now >= self._job.deadline:
                pace *= self._job.overhead.mu1
            self._now += rows * self._work_of_row / pace

    def seconds_until(self, moment: float) -> float:
        """Until something has been done time stands still, however long that takes."""
        return float("inf")

    def idle(self, moment: float) -> None:
        """See `SlotClock`."""
        self._now = max(self._now, moment)
