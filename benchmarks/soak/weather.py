"""Faults at random moments, drawn from a seed, each mended in its time."""

import heapq
import itertools
import random
import time
from collections.abc import Callable, Sequence

from soak.fault import Fault
from soak.stage import Stage

# Nodes on a busy machine need half a minute from a start to their first slot.
MEAN_SECONDS = 40.0
_LEAST_SECONDS = 4.0
_LOOK_SECONDS = 0.2


class Weather:
    """Breaks things until it is over.

    Args:
        stage: with what can be broken.
        faults: what may happen.
        draw: when, and which.
        tell: told what has happened.
    """

    def __init__(
        self,
        stage: Stage,
        faults: Sequence[Fault],
        draw: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._faults = faults
        self._draw = draw
        self._tell = tell
        self._numbers = itertools.count()
        self._cures: list[tuple[float, int, Callable[[], None]]] = []

    def rage(self, until: float) -> None:
        """Break and mend until a moment of the monotonic clock."""
        due = time.monotonic() + self._pause()
        while (now := time.monotonic()) < until:
            self._stage.look()
            self._mend(now)
            if now >= due:
                self._strike()
                due = time.monotonic() + self._pause()
            time.sleep(_LOOK_SECONDS)

    def clear(self) -> None:
        """Mend all that is still broken."""
        self._stage.look()
        self._mend(float("inf"))

    def _strike(self) -> None:
        fault = self._draw.choices(self._faults, [fault.weight for fault in self._faults])[0]
        self._tell(fault.name)
        self._stage.struck[fault.name] += 1
        cure = fault.strike(self._stage, self._draw)
        if cure is not None:
            at = time.monotonic() + cure.after
            heapq.heappush(self._cures, (at, next(self._numbers), cure.apply))

    def _mend(self, now: float) -> None:
        while self._cures and self._cures[0][0] <= now:
            heapq.heappop(self._cures)[2]()

    def _pause(self) -> float:
        return _LEAST_SECONDS + self._draw.expovariate(1 / (MEAN_SECONDS - _LEAST_SECONDS))
