"""A job that is not over: what it is to reach, and how far it is."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.service.jobs.training import Training
from auctune.service.zones.metered.meter import Meter
from auctune.service.zones.progress import Progress
from auctune.service.zones.timeshare.curve import Curve


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
class Left:
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
class TargetJob:
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
    curve: Curve = field(default_factory=Curve)
    best: float | None = None
    share: float = 0.0
    finish: float | None = None
    verdict: str | None = None
    left: Left | None = None
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
    def from_record(cls, record: dict[str, Any]) -> "TargetJob":
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
                "curve": Curve([(b, loss, s) for b, loss, s in record["curve"]]),
                "left": None if left is None else Left(**left),
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

    job: TargetJob
    seq: int
    at: float

    def to_record(self) -> dict[str, Any]:
        """Return plain values."""
        return {"job": self.job.to_record(), "seq": self.seq, "at": self.at}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "CancelledJob":
        """Return what `to_record` was called on."""
        return cls(TargetJob.from_record(record["job"]), record["seq"], record["at"])
