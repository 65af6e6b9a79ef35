"""A job that has left: what the zone remembers of it, to say what others like it will need."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from auctune.domain.data_size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zones.timeshare.curve import Curve

MOST = 50
"""Jobs that a zone remembers."""

LEAST_POINTS = 3
"""Units of which a curve can be told at all."""


@dataclass(frozen=True, slots=True)
class Features:
    """What makes jobs alike.

    Attributes:
        rows, mean_tokens: of the data.
        learning_rate, rank, batch_size: of the training.
    """

    rows: int
    mean_tokens: float
    learning_rate: float
    rank: int
    batch_size: int

    @classmethod
    def of(cls, training: Training, size: DataSize) -> "Features":
        """Of a job that trains so on data of this size."""
        return cls(
            size.rows,
            size.mean_tokens,
            training.learning_rate,
            training.rank,
            training.batch_size,
        )

    def distance(self, other: "Features") -> float:
        """How unlike two jobs are: the sum of their logarithms' differences, >= 0."""
        return math.fsum(
            abs(math.log(mine / its))
            for mine, its in zip(asdict(self).values(), asdict(other).values(), strict=True)
        )

    @property
    def batch_tokens(self) -> float:
        """Tokens of a batch, to which its seconds are taken to be proportional."""
        return self.batch_size * self.mean_tokens


@dataclass(frozen=True, slots=True)
class PastJob:
    """One of them.

    Attributes:
        id: the job's.
        owner: user id.
        features: what it was like.
        curve: of its losses.
    """

    id: str
    owner: str
    features: Features
    curve: Curve

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "PastJob":
        """What `to_record` gave."""
        points = [(b, loss, s) for b, loss, s in record["curve"]["points"]]
        return cls(record["id"], record["owner"], Features(**record["features"]), Curve(points))
