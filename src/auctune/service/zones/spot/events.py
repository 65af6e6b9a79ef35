"""Events of a spot zone.

A job's own slots are numbered from its first slot. Prices are relative to the on-demand price.
"""

from dataclasses import dataclass
from enum import StrEnum

from auctune.domain import Money
from auctune.run.spot.job_config import SpotJobSpec
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
    TRAINING_COMPLETED = "job.training_completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSlotStarted(SlotStarted):
    """A slot began.

    Attributes:
        price: of a spot instance.
        available: spot instances per job.
    """

    price: float
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotDecided(MeteredDecided):
    """A job was decided on, by its estimate.

    Attributes:
        jobs: that the zone runs at once.
        estimate_inputs: inputs of the estimate.
        held: set aside for the job.
        first: first slot of the job.
        ready_at: unix time at which its process was expected to be able to train.
        terms: the job as the policy sees it.
        renting: policy and forecast.
        unit_cost, unit_price: of an on-demand instance for a slot, to the service and its owner.
        worth: amount, deadline, zero_at, reached.
    """

    jobs: int
    estimate_inputs: EstimateInputs
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
        price: of a spot instance, or None after the deadline.
        on_demand, spot: instances held.
        missed: whether the job's process was not running yet.
    """

    at: int
    share: float
    price: float | None
    on_demand: int
    spot: int
    missed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTrained(JobTrained):
    """A slot of a job was trained.

    Attributes:
        number: slot of the job.
    """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReady(EventData):
    """The process of a job can train.

    Attributes:
        seconds: that it took to start.
    """

    type = SpotEventType.PROCESS_READY

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCompleted(EventData):
    """All data of a job are trained; its result is to be archived.

    Attributes:
        state: of the run.
        note: for the owner, or empty.
        finish: in slots of the job.
        worth: value of the job at that time, or None.
    """

    type = SpotEventType.TRAINING_COMPLETED

    state: str
    note: str
    finish: float
    worth: Money | None
