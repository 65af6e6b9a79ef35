"""Events of a timeshare zone. A unit of the pool is a slot of the zone.

`number` counts the events of the pool. The pool goes on from these events after a restart.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from auctune.domain import Money
from auctune.service.zones.core.events import (
    EventData,
    JobCancelled,
    JobFailed,
    JobMetered,
    JobNoted,
    MeteredDecided,
)
from auctune.service.zones.timeshare.decision import EstimateInputs

Number = int | float


class TimeshareEventType(StrEnum):
    """Types of events of timeshare zones only."""

    UNIT_TRAINED = "pool.unit_trained"
    POOL_ENDED = "pool.ended"
    JOINED_POOL = "job.joined_pool"
    LEFT_POOL = "job.left_pool"
    SETTLED = "job.settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareDecided(MeteredDecided):
    """A job was decided on; its target is to be reached by the beginning of `deadline_unit`."""

    deadline_unit: int
    estimate_inputs: EstimateInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTrained(EventData):
    """The pool trained `span` units from `unit` on; `shares` are those of its jobs."""

    type = TimeshareEventType.UNIT_TRAINED

    number: int
    unit: int
    span: Number
    shares: dict[str, Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEnded(EventData):
    """All jobs of a run have ended; the fields are those of the device's `MemoryState`."""

    type = TimeshareEventType.POOL_ENDED

    suspended: int
    resumed: int
    seconds: Number
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobJoined(EventData):
    """A job was loaded into the pool.

    Attributes:
        rate: estimate of its batches a unit, from which on it follows what the job trains.
        memory: bytes.
    """

    type = TimeshareEventType.JOINED_POOL

    number: int
    unit: int
    rate: Number
    memory: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareMetered(JobMetered):
    """A job was charged for seconds of the pool.

    Attributes:
        batches: that were trained; 0 for loading.
        loss: mean over the batches, or None.
        finish: unit at which the job is forecast to finish, or None.
        verdict: of the pool, or None.
        charged_seconds: fewer than `seconds`, as the batches would have taken at the speed that was
            sold; or None.
    """

    unit: int
    seconds: Number
    batches: int
    loss: float | None
    share: Number
    finish: Number | None
    verdict: str | None
    charged_seconds: Annotated[Number | None, Field(exclude_if=lambda seconds: seconds is None)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeft(EventData):
    """A job left the pool.

    Attributes:
        how: as of `auctune.engine.pool.events.ExitReason`.
        best: loss of the unit whose adapter is the result, or None.
    """

    type = TimeshareEventType.LEFT_POOL

    number: int
    how: str
    why: str
    best: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNoted(JobNoted):
    """The pool noted something for a job's owner."""

    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareCancelled(JobCancelled):
    """A job was cancelled that the pool may be training.

    Attributes:
        held: still set aside for what the pool trains until it drops the job; None if the job
            was not in the pool.
    """

    held: Money | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeshareFailed(JobFailed):
    """A job failed; `files` are the ids of the results that it has nevertheless."""

    files: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettled(EventData):
    """The pool has dropped a cancelled job; what was set aside is released."""

    type = TimeshareEventType.SETTLED
