"""A job of an edge market, what its completion is worth, and the largest numbers it may have."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.numerics.arrays import FIT

MOST_CELLS = 10**7
"""Largest number of cells of slots x sites x resource types, and of slots x chunks of a job."""
MOST_CHUNKS = 10**4
MOST_EPOCHS = 10**6
MOST_RATE = 1e9
"""Chunks that a worker passes through in a slot; and workers that a chunk needs."""
MOST_UNITS = 1e11
MOST_WORTH = 1e11
"""What the type of money takes."""
_SHOWN = 40


def check_most(value: float, place: str, most: float) -> None:
    """Refuse a number that is too large.

    Raises:
        InputError: naming `place`.
    """
    if value > most:
        # A whole number of a file may be beyond float64.
        raise InputError(place, f"{value!r}"[:_SHOWN], f"{most:.10g} at most")


class Utility(Protocol):
    """A utility function; two that are equal give equal values."""

    def __call__(self, duration: int) -> float:
        """The job's worth, money, when it takes `duration` >= 0 slots after its arrival slot."""
        ...


@dataclass(frozen=True, slots=True)
class Logistic:
    """f(duration) = scale / (1 + exp(duration / decay)); Pang et al. (TMC 2024), section VI-B.

    Attributes:
        scale: money; the job is worth half of it at duration 0.
        decay: slots, > 0.
    """

    scale: float
    decay: float

    def __post_init__(self) -> None:
        check_finite(self.scale, "scale", "money >= 0")
        check_most(self.scale, "scale", MOST_WORTH)
        check_positive(self.decay, "decay", "slots > 0")

    def __call__(self, duration: int) -> float:
        exponent = duration / self.decay
        return 0.0 if exponent > 700 else self.scale / (1 + math.exp(exponent))


@dataclass(frozen=True, slots=True)
class ByDuration:
    """A table: values[duration], and 0 beyond it.

    Attributes:
        values: money, none above the one before it.
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("values", "is empty", "money by duration, one number at least")
        check_most(self.values[0], "values[0]", MOST_WORTH)
        for duration, value in enumerate(self.values):
            check_finite(value, f"values[{duration}]", "money >= 0")
            if duration and value > self.values[duration - 1]:
                raise InputError(
                    f"values[{duration}]", f"{value!r} is above the one before", "no rising values"
                )

    def __call__(self, duration: int) -> float:
        return self.values[duration] if duration < len(self.values) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeJob:
    """One job.

    Attributes:
        id: its name.
        arrival: a_i, the slot of its bid.
        epochs: E_i; a chunk is trained for all of them in one slot at one site.
        chunks: D_i^r, data chunks by site.
        worker: w_i^k, what a worker occupies by resource type, units.
        server: s_i^k, what the parameter server occupies, likewise.
        chunks_per_worker_slot: P_i, chunks that a worker passes through once in a slot.
        parameter_mb: lambda_i, MB in a slot for each worker away from the server.
        utility: f_i.
    """

    id: str
    arrival: int
    epochs: int
    chunks: Mapping[str, int]
    worker: Mapping[str, float]
    server: Mapping[str, float]
    chunks_per_worker_slot: float
    parameter_mb: float
    utility: Utility

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("id", "is empty", "a name")
        if self.arrival < 0:
            raise InputError("arrival", f"{self.arrival!r}", "a slot >= 0")
        if self.epochs < 1:
            raise InputError("epochs", f"{self.epochs!r}", "a whole number >= 1")
        check_most(self.epochs, "epochs", MOST_EPOCHS)
        for site, count in self.chunks.items():
            if count < 0:
                raise InputError(f"chunks.{site}", f"{count!r}", "a number of chunks >= 0")
        if not self.num_chunks:
            raise InputError("chunks", "has none", "one chunk at least")
        check_most(self.num_chunks, "chunks", MOST_CHUNKS)
        for name, needs in (("worker", self.worker), ("server", self.server)):
            for kind, units in needs.items():
                check_finite(units, f"{name}.{kind}", "units >= 0")
        if not any(self.worker.values()):
            raise InputError("worker", "occupies nothing", "units > 0 of one type at least")
        self._check_rate()
        check_finite(self.parameter_mb, "parameter_mb", "MB >= 0")

    def _check_rate(self) -> None:
        rate, least = self.chunks_per_worker_slot, self.epochs / MOST_RATE
        check_positive(rate, "chunks_per_worker_slot", "chunks > 0")
        check_most(rate, "chunks_per_worker_slot", MOST_RATE)
        if rate < least:
            raise InputError("chunks_per_worker_slot", f"{rate!r}", f"{least:g} at least")

    @property
    def num_chunks(self) -> int:
        return sum(self.chunks.values())

    def workers_for(self, chunks: int) -> int:
        """Return the least whole g with P g >= E h (2b), for h chunks at one site in one slot."""
        return workers_for(self.epochs, self.chunks_per_worker_slot, chunks)

    def value(self, finish: int) -> float:
        """f_i when slot `finish` is its last, money."""
        return self.utility(finish - self.arrival)


def workers_for(epochs: int, rate: float, chunks: int) -> int:
    """Return the least whole g with `rate` g >= `epochs` chunks."""
    return math.ceil(epochs * chunks / rate * (1 - FIT))
