"""When bids arrive: by chance at a steady rate, or as the jobs of a log did.

| object | bids |
| --- | --- |
| `PoissonArrivals` | independent of each other, the same rate in every slot |
| `LogArrivals` | those of a window of a job log, more or fewer of them if a rate is asked for |
| `BurstyArrivals` (bursty.py) | in bursts and waves, as real logs have them |
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.sim.traces.job_log import DAY_SECONDS, JobLog

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """The bids of a horizon, n of them.

    Attributes:
        slot: [n] of each, ascending.
        gpu_seconds: [n] that each took in the log that it comes from; none where there is none.
    """

    slot: IntArray
    gpu_seconds: FloatArray | None = None


class Arrivals(Protocol):
    """Says when bids arrive."""

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        """The bids of a horizon that starts at midnight; the same with the same generator."""
        ...


@dataclass(frozen=True, slots=True)
class PoissonArrivals:
    """Independent arrivals.

    Attributes:
        rate: mean number a slot.
    """

    rate: float = 50.0

    def __post_init__(self) -> None:
        check_finite(self.rate, "rate", "bids a slot >= 0")

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        """Poisson counts, one a slot."""
        counts = rng.poisson(self.rate, slots)
        return Arrived(np.repeat(np.arange(slots), counts))


@dataclass(frozen=True, slots=True, eq=False)
class LogArrivals:
    """The jobs of a log, each in the slot in which it was submitted.

    To come to a given rate, each job becomes c bids on average: floor(c) for sure, and one more
    with the probability of the rest. Below 1 that thins the log, above 1 it repeats jobs. How
    counts go up and down over the window stays as it was, in proportion; so a log that is scaled
    up by c is c times as dispersed (variance over mean), and one that is thinned comes closer to
    Poisson arrivals.

    Attributes:
        log: the jobs.
        start_day: where the window starts, in days of the log.
        rate: mean number a slot over the window; none: as many as there are.
    """

    log: JobLog
    start_day: float = 0.0
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_positive(self.rate, "rate", "bids a slot > 0")

    def draw(self, slots: int, slot_seconds: float, rng: np.random.Generator) -> Arrived:
        """The jobs of the window.

        Raises:
            InputError: if it goes beyond the log, or has no job at all.
        """
        window = self.log.window(self.start_day, slots * slot_seconds / DAY_SECONDS)
        if not len(window):
            raise InputError("start_day", f"{self.start_day:g} starts no jobs", "days with jobs")
        slot = np.minimum(np.floor(window.submit_s / slot_seconds).astype(np.int64), slots - 1)
        copies = np.ones(len(window), dtype=np.int64)
        if self.rate is not None:
            each = self.rate * slots / len(window)
            copies = np.floor(each + rng.random(len(window))).astype(np.int64)
        gpu_seconds = window.gpus * window.duration_s
        return Arrived(np.repeat(slot, copies), np.repeat(gpu_seconds, copies))
