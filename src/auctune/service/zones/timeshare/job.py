"""Jobs of a timeshare zone: loss curves, open, cancelled and completed jobs."""

import math
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.domain.training import Method
from auctune.service.jobs.training import Training
from auctune.service.zones.core.job import MeteredJob

MAX_POINTS = 64

Point = tuple[int, float, float]
"""Batches at its end, mean loss over its batches, and seconds of the pool."""


@dataclass
class LossCurve:
    """Loss curve of a job, of bounded size.

    A point is a unit of time, or several merged ones. Where there would be more than MAX_POINTS
    points, each two of them become one.

    Attributes:
        points: oldest first.
    """

    points: list[Point] = field(default_factory=list)

    @property
    def batches(self) -> int:
        """Trained in all."""
        return self.points[-1][0] if self.points else 0

    @property
    def seconds(self) -> float:
        return sum(seconds for _, _, seconds in self.points)

    def add(self, batches: int, loss: float, seconds: float) -> None:
        """Add a unit of at least one batch, with a finite mean loss."""
        self.points.append((self.batches + batches, loss, seconds))
        if len(self.points) > MAX_POINTS:
            # The newest point stays exact.
            *older, newest = self.points
            starts = range(0, len(older), 2)
            self.points = [self._merge(older, start) for start in starts] + [newest]

    def _merge(self, points: list[Point], start: int) -> Point:
        first = points[start]
        if start + 1 == len(points):
            return first
        second = points[start + 1]
        before = points[start - 1][0] if start else 0
        one, two = first[0] - before, second[0] - first[0]
        loss = (one * first[1] + two * second[1]) / (one + two)
        return second[0], loss, first[2] + second[2]


MAX_COMPLETED_JOBS = 50
"""Completed jobs that a zone keeps."""

MIN_POINTS = 3
"""Points that a curve must have to be of use."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features by which jobs are similar.

    Attributes:
        rows, mean_tokens: of the data.
        learning_rate, rank, batch_size, method: of the training.
        has_start: whether it starts from an adapter.
    """

    rows: int
    mean_tokens: float
    learning_rate: float
    rank: int
    batch_size: int
    # Omitted from snapshots at the default, so that those of earlier releases stay the same.
    method: Annotated[Method, Field(exclude_if=lambda method: method == "supervised")] = (
        "supervised"
    )
    has_start: Annotated[bool, Field(exclude_if=lambda has_start: not has_start)] = False

    @classmethod
    def of(cls, training: Training, size: DataSize) -> "Features":
        return cls(
            size.rows,
            size.mean_tokens,
            training.learning_rate,
            training.rank,
            training.batch_size,
            training.method,
            training.start_from is not None,
        )

    def distance(self, other: "Features") -> float:
        """Return the sum of the differences of their logarithms, >= 0.

        It is infinite where losses do not compare: of different methods, or where one job alone
        starts from an adapter.
        """
        if (self.method, self.has_start) != (other.method, other.has_start):
            return math.inf
        return math.fsum(
            abs(math.log(mine / its))
            for mine, its in zip(self._numbers, other._numbers, strict=True)
        )

    @property
    def _numbers(self) -> tuple[float, ...]:
        return self.rows, self.mean_tokens, self.learning_rate, self.rank, self.batch_size

    @property
    def batch_tokens(self) -> float:
        """Tokens of a batch; its seconds are assumed to be proportional to them."""
        return self.batch_size * self.mean_tokens


@dataclass(frozen=True, slots=True)
class CompletedJob:
    """A completed job, kept to forecast similar ones."""

    id: str
    owner: str
    features: Features
    curve: LossCurve


@dataclass
class Departure:
    """Departure of a job from the pool.

    Attributes:
        reason: as of `auctune.engine.pool.events.ExitReason`.
        why: an error in words, or empty.
        best: loss of the unit whose adapter is the result, or None if there is no adapter.
    """

    reason: str
    why: str
    best: float | None


@dataclass(kw_only=True)
class TimeshareJob(MeteredJob):
    """An admitted job of a timeshare zone. Its number of rows is unknown: progress counts to 0.

    Attributes:
        target_loss: that the mean of a unit must reach.
        deadline_unit: by whose beginning.
        has_joined: whether it has been in the pool.
        curve: of its losses.
        best: lowest loss of a unit so far, or None.
        share: of the pool in the newest unit.
        finish: unit at which it will finish if its share stays, or None if that is unknown.
        departure: how it left the pool, or None.
    """

    size: DataSize
    target_loss: float
    deadline_unit: int
    has_joined: bool = False
    curve: LossCurve = field(default_factory=LossCurve)
    best: float | None = None
    share: float = 0.0
    finish: float | None = None
    verdict: str | None = None
    departure: Departure | None = None

    @property
    def is_cap_reached(self) -> bool:
        """Return whether nothing more may be charged."""
        return self.meter.remaining == ZERO

    @property
    def cost(self) -> Money:
        return self.meter.charged


@dataclass
class CancelledJob:
    """A cancelled job; it is charged for what the pool trains until it is dropped."""

    job: TimeshareJob
    seq: int
    at: float
