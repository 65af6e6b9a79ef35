"""Events of a spot zone.

A job's own slots are numbered from its first slot. Prices are relative to the on-demand price.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from auctune.domain import Money
from auctune.engine.spot.job_config import SpotJobSpec
from auctune.service.storage.events import Record
from auctune.service.zones.core.events import (
    EventData,
    JobMetered,
    JobTrained,
    MeteredDecided,
    SlotStarted,
)
from auctune.service.zones.spot.decision import EstimateInputs


class SpotEventType(StrEnum):
    """Types of events of spot zones only."""

    PROCESS_READY = "job.process_ready"
    RUN_EVENT = "job.run_event"
    TRAINING_COMPLETED = "job.training_completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSlotStarted(SlotStarted):
    """A slot began, with the price of a spot instance, and instances available per job."""

    price: float
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotDecided(MeteredDecided):
    """A job was decided on, by its estimate.

    Attributes:
        jobs: that the zone runs at once.
        estimate_inputs: None for the job of a run without a service, which has no estimate.
        held: set aside for the job.
        ready_at: unix time at which its process was expected to be able to train.
        unit_cost, unit_price: of an on-demand instance for a slot, to the service and its owner.
        worth: amount, deadline, zero_at, reached.
    """

    jobs: int
    estimate_inputs: EstimateInputs | None
    held: Money
    first: int
    ready_at: float
    terms: SpotJobSpec
    renting: Record
    unit_cost: float
    unit_price: float
    worth: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMetered(JobMetered):
    """What a job held in a slot, and the charge for it, which may be 0.

    Attributes:
        at: slot of the zone.
        share: part of the slot that was paid; below 1 only after the deadline.
        missed: whether the job's process was not running yet.
        preempted: spot instances lost within the job's slot before; 0 if changes of instances are
            charged by total.
    """

    at: int
    share: float
    price: float | None
    on_demand: int
    spot: int
    missed: bool
    preempted: Annotated[int, Field(exclude_if=lambda preempted: not preempted)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTrained(JobTrained):
    """A slot of a job, by its number within the job, was trained.

    Attributes:
        refund: of the slot's charge, as the machine was slower than sold; or None.
    """

    number: int
    refund: Annotated[Money | None, Field(exclude_if=lambda refund: refund is None)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEventRecorded(EventData):
    """An event of a job's run, from which its process goes on; see `auctune.engine.spot.state`.

    What it means for the job and its owner is recorded with it, by events of their own.
    """

    type = SpotEventType.RUN_EVENT

    event: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReady(EventData):
    """The process of a job can train, after so many seconds."""

    type = SpotEventType.PROCESS_READY

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCompleted(EventData):
    """All data of a job are trained; its result is to be archived.

    Attributes:
        finish: in slots of the job.
        worth: value of the job at that time, or None.
    """

    type = SpotEventType.TRAINING_COMPLETED

    state: str
    note: str
    finish: float
    worth: Money | None
