"""The time of a pool that shares its units with somebody else: slots on a real clock."""

import math
import threading
from collections.abc import Callable

from auctune.numerics.arrays import Bools, Floats
from auctune.run.timeshare.pace import Pace, Unit, WallPace
from auctune.run.unix_time import unix_time


class SlotPace:
    """Units that are slots: unit t lasts from epoch + t * unit_seconds, in unix time.

    It does not stand still while the pool is not there, and a unit ends early when the pool is to
    stop.

    Args:
        epoch: unix time at which unit 0 began.
        unit_seconds: how long one is.
        stop: set when the pool is to stop.
        now: tells unix time.
    """

    def __init__(
        self,
        epoch: float,
        unit_seconds: float,
        stop: threading.Event,
        now: Callable[[], float] = unix_time,
    ) -> None:
        self._epoch, self._seconds, self._now, self._stop = epoch, unit_seconds, now, stop
        self._wall = WallPace(unit_seconds, now=now, wait=self._wait)

    def start(self, moment: float) -> None:
        """Where the record ends says nothing: the clock goes on by itself."""
        self._wall.start(self.moment())

    def moment(self) -> float:
        """See `Pace`."""
        return (self._now() - self._epoch) / self._seconds

    def next_unit(self, least: int) -> Unit:
        """See `Pace`."""
        return self._wall.next_unit(least)

    def room(self, unit: Unit, due: Floats, rates: Floats) -> Floats:
        """See `Pace`."""
        return self._wall.room(unit, due, rates)

    def is_over(self, unit: Unit) -> bool:
        """See `Pace`; also when the pool is to stop."""
        return self._stop.is_set() or self._wall.is_over(unit)

    def rates(self, rates: Floats, batches: Floats, seconds: Floats, is_new: Bools) -> Floats:
        """See `Pace`."""
        return self._wall.rates(rates, batches, seconds, is_new)

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds)


class LaterPace:
    """A pace whose next unit comes after all that the pool has trained, by whoever it was.

    Args:
        pace: of the pool.
        last: the newest unit that was trained.
    """

    def __init__(self, pace: Pace, last: Callable[[], int]) -> None:
        self._pace, self._last = pace, last
        self.start, self.moment, self.room = pace.start, pace.moment, pace.room
        self.is_over, self.rates = pace.is_over, pace.rates

    def next_unit(self, least: int) -> Unit:
        """See `Pace`."""
        return self._pace.next_unit(max(least, self._last() + 1))


def unit_now(pace: Pace, last: int) -> int:
    """The earliest unit that can begin now."""
    return max(last + 1, math.floor(pace.moment()))
