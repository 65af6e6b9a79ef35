"""Jobs of a timeshare zone: event types, loss curves, completed and open jobs.

| kind | body |
| --- | --- |
| zone.opened | base, price_per_second, allocator, memory_gb |
| job.decided | decision {.., max_cost, estimate, target_loss}, deadline_unit, left, estimated |
| pool.unit | number, unit, span, shares |
| job.joined | number, unit, rate, memory |
| job.metered | slot, amount, cost, unit, seconds, batches, loss, share, finish, verdict |
| job.left | number, how, why, best |
| job.cancelled | held, unless it had left the pool |
| job.settled | - |

A unit is a slot of the zone; `number` is that of the event in the pool's journal which said so:
what has a number that is on record is never taken over again. Of a job that left, what it had
learned best lies in the pool's folder, if it had learned anything. A job that is cancelled while
the pool may be training it keeps `held` set aside and is charged what the pool still trains of it;
once the pool has dropped it, it is settled, which releases the rest. A decision follows from what
is on record: `left` is what was left of the owner's budget, and the estimate was made of
`estimated`: `seq` of the newest event that the zone knew, and `first_unit` in which the job could
begin.

State is the fold over them; see `auctune.service.zones.timeshare.state`.
"""

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.service.jobs.training import Training
from auctune.service.zones.core.job import Progress
from auctune.service.zones.core.metered import Meter


class TimeshareEventType(StrEnum):
    """What happened."""

    UNIT = "pool.unit"
    JOINED = "job.joined"
    LEFT = "job.left"
    SETTLED = "job.settled"


# Loss curve of a job, of bounded size.
#
# Each point is a unit of time, or several that were put together: batches up to its end, the mean
# loss over them, and the seconds of the pool that they took. Where there would be more than
# MAX_POINTS points, each two of them become one.

MAX_POINTS = 64

Point = tuple[int, float, float]
"""Batches at its end, mean loss over its batches, and seconds of the pool."""


@dataclass
class LossCurve:
    """Of one job.

    Attributes:
        points: oldest first.
    """

    points: list[Point] = field(default_factory=list)

    @property
    def batches(self) -> int:
        """Learned in all."""
        return self.points[-1][0] if self.points else 0

    @property
    def seconds(self) -> float:
        """Of the pool, in all."""
        return sum(seconds for _, _, seconds in self.points)

    def add(self, batches: int, loss: float, seconds: float) -> None:
        """Take in a unit.

        Args:
            batches: of it, > 0.
            loss: the mean over them, finite.
            seconds: of the pool.
        """
        self.points.append((self.batches + batches, loss, seconds))
        if len(self.points) > MAX_POINTS:
            # The newest stays as it is, so that what was seen last is seen sharply.
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


# Completed jobs, kept to forecast similar ones.

MAX_COMPLETED_JOBS = 50
"""Jobs that a zone remembers."""

MIN_POINTS = 3
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
class CompletedJob:
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
    curve: LossCurve

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "CompletedJob":
        """What `to_record` gave."""
        points = [(b, loss, s) for b, loss, s in record["curve"]["points"]]
        return cls(record["id"], record["owner"], Features(**record["features"]), LossCurve(points))


# The open job: its target and its progress.


class Phase(StrEnum):
    """Where an admitted job stands."""

    ADMITTED = "admitted"
    """It waits to join the pool."""
    LEARNING = "learning"
    """It is in the pool."""
    PAUSED = "paused"
    """Its owner has it have no share for a while."""
    LEFT = "left"
    """It has left the pool; its adapter is being packed."""


@dataclass
class Departure:
    """How a job left the pool.

    Attributes:
        how: as `auctune.run.open_pool.state.How` says it.
        why: for people, where something went wrong.
        best: loss of the unit whose adapter is handed out; none: there is no adapter.
    """

    reason: str
    why: str
    best: float | None


@dataclass
class TimeshareJob:
    """One admitted job.

    Attributes:
        id, seq, owner, created_at, request: as its row has them.
        training: what it trains.
        size: of its data.
        decision: as it was answered, plain values.
        target_loss: at or under which the mean of a unit must come.
        deadline_unit: by whose beginning.
        meter: what it has cost.
        phase: where it stands.
        has_joined: whether it has been in the pool.
        progress, curve: of its training; nobody knows how many rows there will be: 0.
        best: least loss of a unit so far; none before the first.
        share: of the newest unit.
        finish: unit at which it will be done if its share stays; none: nobody knows.
        verdict: how the pool sees it.
        left: how it left the pool; none: it has not.
        notes: what its owner should know.
    """

    id: str
    seq: int
    owner: str
    created_at: float
    request: dict[str, Any]
    training: Training
    size: DataSize
    decision: dict[str, Any]
    target_loss: float
    deadline_unit: int
    meter: Meter
    phase: Phase = Phase.ADMITTED
    has_joined: bool = False
    progress: Progress = field(default_factory=Progress)
    curve: LossCurve = field(default_factory=LossCurve)
    best: float | None = None
    share: float = 0.0
    finish: float | None = None
    verdict: str | None = None
    left: Departure | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_cap_reached(self) -> bool:
        """Whether it may cost no more."""
        return self.meter.remaining == ZERO

    @property
    def cost(self) -> Money:
        """What it has cost so far."""
        return self.meter.charged

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        record = dict(vars(self))
        return record | {
            "training": self.training.to_record(),
            "size": self.size.to_record(),
            "meter": self.meter.to_record(),
            "phase": self.phase.value,
            "progress": self.progress.to_record(),
            "curve": [list(point) for point in self.curve.points],
            "left": None if self.left is None else asdict(self.left),
            "notes": list(self.notes),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "TimeshareJob":
        """What `to_record` gave."""
        left = record["left"]
        return cls(
            **{
                **record,
                "training": Training.from_record(record["training"]),
                "size": DataSize.from_record(record["size"]),
                "meter": Meter.from_record(record["meter"]),
                "phase": Phase(record["phase"]),
                "progress": Progress(**record["progress"]),
                "curve": LossCurve([(b, loss, s) for b, loss, s in record["curve"]]),
                "left": None if left is None else Departure(**left),
            }
        )


@dataclass
class CancelledJob:
    """A cancelled job that the pool may still be training.

    Attributes:
        job: as it stands; it is charged what the pool trains until it drops it.
        seq: number of the event that cancelled it.
        at: unix time of that.
    """

    job: TimeshareJob
    seq: int
    at: float

    def to_record(self) -> dict[str, Any]:
        """Return plain values."""
        return {"job": self.job.to_record(), "seq": self.seq, "at": self.at}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "CancelledJob":
        """Return what `to_record` was called on."""
        return cls(TimeshareJob.from_record(record["job"]), record["seq"], record["at"])
