"""Clocks of a pool: which quantum it is, and how many batches it has time for."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from auctune.numerics.arrays import Bools, Floats

# How fast a rate follows what is measured: the weight of a quantum of MANY batches or more.
FOLLOW = 0.3
MANY = 10
# Batches after which what a new job shows counts alone: its rate was only an estimate.
FEW = 3

# Less of a quantum than this is not worth a round: the next one begins early.
MIN_SPAN = 0.2


@dataclass(frozen=True, slots=True)
class Quantum:
    """A quantum that begins.

    Attributes:
        time: its number.
        span: how much of it there is to train in, in quanta; near 1.
    """

    time: int
    span: float


class Clock:
    """Logical time of a pool: a quantum lasts as long as its batches take.

    Nothing depends on how busy the machine is.
    """

    def __init__(self) -> None:
        self._moment = 0.0

    def start(self, moment: float) -> None:
        """Set the time."""
        self._moment = moment

    def moment(self) -> float:
        """Return the time, in quanta, with a fraction."""
        return self._moment

    def next_quantum(self, earliest: int) -> Quantum:
        """Return the quantum that begins now, `earliest` or a later one; wait until it begins."""
        self._moment = earliest + 1.0
        return Quantum(earliest, 1.0)

    def fit(self, quantum: Quantum, due: Floats, rates: Floats) -> Floats:
        """Return [k] how much of the batches that are due the quantum has time for."""
        return due

    def remaining_seconds(self, quantum: Quantum) -> float | None:
        """Return the seconds until the quantum ends; None if it ends when all is trained."""
        return None

    def update_rates(
        self, rates: Floats, batches: Floats, seconds: Floats, is_new: Bools
    ) -> Floats:
        """Return batches per quantum after a quantum.

        Args:
            rates: [k] before it.
            batches, seconds: [k] trained in it, and how long that took.
            is_new: [k] whether a job had trained nothing before it.
        """
        return rates


class WallClock(Clock):
    """Real time.

    A quantum that was trained through early lets the next one begin early, one that took too long
    leaves it less: quanta end when the clock says so.

    Args:
        quantum_seconds: > 0.
        origin: when quantum 0 began, by `now`; by default now.
        stop: ends waiting when it is set.
        now: returns seconds.
        wait: lets seconds pass; by default until `stop` is set.
    """

    def __init__(
        self,
        quantum_seconds: float,
        origin: float | None = None,
        stop: threading.Event | None = None,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._seconds, self._now = quantum_seconds, now
        self._stop = threading.Event() if stop is None else stop
        self._wait = self._stop.wait if wait is None else wait
        self._origin = now() if origin is None else origin

    def start(self, moment: float) -> None:
        self._origin = self._now() - moment * self._seconds

    def moment(self) -> float:
        return (self._now() - self._origin) / self._seconds

    def next_quantum(self, earliest: int) -> Quantum:
        early = earliest - 1 - self.moment()
        if early > 0:
            self._wait(early * self._seconds)
        moment = self.moment()
        quantum = max(earliest, math.floor(moment))
        if quantum + 1 - moment < MIN_SPAN:
            quantum += 1
        return Quantum(quantum, quantum + 1 - moment)

    def fit(self, quantum: Quantum, due: Floats, rates: Floats) -> Floats:
        """Return all of it if there is time, else as much of each job's in proportion."""
        needed = float((due / rates).sum())
        return due if needed <= quantum.span else due * (quantum.span / needed)

    def remaining_seconds(self, quantum: Quantum) -> float | None:
        return (quantum.time + 1 - self.moment()) * self._seconds

    def update_rates(
        self, rates: Floats, batches: Floats, seconds: Floats, is_new: Bools
    ) -> Floats:
        """Return rates moved towards what the quantum showed, less far where that was little."""
        had = (batches >= 1) & (seconds > 0)
        seen = np.divide(batches * self._seconds, seconds, out=rates.copy(), where=had)
        # A long batch says as much as many short ones.
        much = np.maximum(batches / np.where(is_new, FEW, MANY), seconds / self._seconds)
        weight = np.where(is_new, 1.0, FOLLOW) * np.minimum(much, 1.0)
        moved: Floats = rates + weight * (seen - rates)
        return moved
