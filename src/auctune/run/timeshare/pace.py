"""What time it is in a run, and how many batches a unit of it has room for."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.numerics.arrays import Bools, Floats

# How fast a rate follows what is measured: the weight of a unit of MANY batches or more.
FOLLOW = 0.3
MANY = 10
# Batches after which what a new thread shows counts alone: its N was only estimated.
FEW = 3

# Less of a unit than this is not worth a round: the next one begins early.
LEAST_SPAN = 0.2


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of time that begins.

    Attributes:
        time: tau.
        span: how much of it is there to train in, in units; near 1.
    """

    time: int
    span: float


class Pace(Protocol):
    """A clock, which stands still while the run is not there."""

    def start(self, moment: float) -> None:
        """Begin at a moment, in units since the run began."""
        ...

    def moment(self) -> float:
        """Units since the run began, with a fraction."""
        ...

    def next_unit(self, least: int) -> Unit:
        """The unit that begins now, `least` or a later one; waits if that is not there yet."""
        ...

    def room(self, unit: Unit, due: Floats, rates: Floats) -> Floats:
        """[k] how much of the batches that are due the unit has room for."""
        ...

    def is_over(self, unit: Unit) -> bool:
        """Whether the unit has ended, so that no more should be trained in it."""
        ...

    def rates(self, rates: Floats, batches: Floats, seconds: Floats, is_new: Bools) -> Floats:
        """N after a unit.

        Args:
            rates: [k] N before it.
            batches, seconds: [k] trained in it, and how long that took.
            is_new: [k] whether a thread had trained nothing before it.
        """
        ...


class CountedPace:
    """A unit lasts as long as its batches take; nothing depends on how busy a machine is."""

    def __init__(self) -> None:
        self._moment = 0.0

    def start(self, moment: float) -> None:
        """See `Pace`."""
        self._moment = moment

    def moment(self) -> float:
        """See `Pace`."""
        return self._moment

    def next_unit(self, least: int) -> Unit:
        """See `Pace`."""
        self._moment = least + 1.0
        return Unit(least, 1.0)

    def room(self, unit: Unit, due: Floats, rates: Floats) -> Floats:
        """All of it."""
        return due

    def is_over(self, unit: Unit) -> bool:
        """Never: what a unit has is what it takes."""
        return False

    def rates(self, rates: Floats, batches: Floats, seconds: Floats, is_new: Bools) -> Floats:
        """As they were."""
        return rates


class WallPace:
    """Real time.

    A unit that was trained through early lets the next one begin early, one that took too long
    leaves it less: units end when the clock says so.

    Args:
        unit_seconds: how long one is, > 0.
        now: seconds by a clock that only goes forward.
        wait: lets seconds pass.
    """

    def __init__(
        self,
        unit_seconds: float,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds, self._now, self._wait = unit_seconds, now, wait
        self._origin = now()

    def start(self, moment: float) -> None:
        """See `Pace`."""
        self._origin = self._now() - moment * self._seconds

    def moment(self) -> float:
        """See `Pace`."""
        return (self._now() - self._origin) / self._seconds

    def next_unit(self, least: int) -> Unit:
        """See `Pace`."""
        early = least - 1 - self.moment()
        if early > 0:
            self._wait(early * self._seconds)
        moment = self.moment()
        unit = max(least, math.floor(moment))
        if unit + 1 - moment < LEAST_SPAN:
            unit += 1
        return Unit(unit, unit + 1 - moment)

    def room(self, unit: Unit, due: Floats, rates: Floats) -> Floats:
        """All of it if there is time, else as much of each thread's in proportion."""
        needed = float((due / rates).sum())
        return due if needed <= unit.span else due * (unit.span / needed)

    def is_over(self, unit: Unit) -> bool:
        """See `Pace`."""
        return self.moment() >= unit.time + 1

    def rates(self, rates: Floats, batches: Floats, seconds: Floats, is_new: Bools) -> Floats:
        """Moved towards what the unit showed, less far where that was little."""
        had = (batches >= 1) & (seconds > 0)
        seen = np.divide(batches * self._seconds, seconds, out=rates.copy(), where=had)
        # A long batch says as much as many short ones.
        much = np.maximum(batches / np.where(is_new, FEW, MANY), seconds / self._seconds)
        weight = np.where(is_new, 1.0, FOLLOW) * np.minimum(much, 1.0)
        moved: Floats = rates + weight * (seen - rates)
        return moved
