"""Events that a run publishes to its caller while it goes on; times are slots since its start."""

from collections.abc import Callable
from dataclasses import dataclass

from auctune.run.spot.state import SlotRecord
from auctune.train.job import Progress


@dataclass(frozen=True, slots=True)
class SlotStarted:
    """A slot was decided and paid, or is continued by a resumed run."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class RowsTrained:
    """Rows were trained, or a resumed run continues with those of its checkpoint."""

    time: float
    num_workers: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class InstancesPreempted:
    """Spot instances were preempted."""

    time: float
    count: int


@dataclass(frozen=True, slots=True)
class SlotFinished:
    """A slot is over and its checkpoint is written."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class OvertimeStarted:
    """The deadline passed before the work was done; the rest runs on demand."""

    time: float
    num_instances: int


@dataclass(frozen=True, slots=True)
class OvertimeBilled:
    """An interval of the overtime was recorded, and its instances are to be paid."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Warned:
    """Something happened that an operator should know."""

    text: str


@dataclass(frozen=True, slots=True)
class DataNoted:
    """Rows of the data are truncated or left out."""

    text: str


SpotEvent = (
    SlotStarted
    | RowsTrained
    | InstancesPreempted
    | SlotFinished
    | OvertimeStarted
    | OvertimeBilled
    | Warned
    | DataNoted
)

OnEvent = Callable[[SpotEvent], None]


def ignore_event(event: SpotEvent) -> None:
    """Do nothing: the default subscriber of a run."""
