"""State of a zone of kind `fcfs`: jobs, the queue, and what the API shows of a job."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from auctune.domain import Money, Reason
from auctune.engine.unix_time import SlotClock
from auctune.service.storage.event_log import EventType, Record, ZoneEvent, job_of
from auctune.service.storage.queries import Effects, JobReadModel
from auctune.service.zones.core.events import (
    EventData,
    JobDecided,
    JobPaused,
    JobTrained,
    Size,
)
from auctune.service.zones.core.job import PendingJob, Phase, Progress, SlotJob
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobRow,
    PrepaidProjection,
    PrepaidRow,
)
from auctune.service.zones.core.state import Reducer, SlotJobState, ZoneModel


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfsDecision:
    """Decision on a job; `payment` is 0 if it is rejected."""

    admitted: bool
    reason: Reason | None
    price: Money
    payment: Money


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfsDecided(JobDecided):
    """A job was admitted or rejected.

    Attributes:
        size: of its data.
        deadline: unix time.
        num_slots: estimated duration alone on a node.
        finish: slot in which it is expected to finish behind the queue.
        earliest: `finish`, if that is too late.
        budget_remaining: remaining budget, if the price is above it.
    """

    size: Size
    deadline: float
    num_slots: int
    finish: int
    decision: FcfsDecision
    earliest: int | None
    budget_remaining: Money | None

    @property
    def is_admitted(self) -> bool:
        return self.decision.admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfsStarted(EventData):
    """A job was assigned a node, until it is trained or paused."""

    type = "job.started"

    node: str


@dataclass(kw_only=True)
class FcfsJob(SlotJob):
    """An admitted job.

    Attributes:
        deadline: unix time.
        num_slots: estimated duration alone on a node.
        finish: slot in which it was expected to finish when it was admitted.
        node: on which it trains; `None` while it waits.
    """

    decision: FcfsDecision
    deadline: float
    num_slots: int
    finish: int
    node: str | None = None

    @property
    def payment(self) -> Money:
        return self.decision.payment

    @property
    def remaining_slots(self) -> int:
        """Estimated number of slots until it is trained."""
        remaining = 1 - self.progress.rows / self.total_rows
        return max(1, math.ceil(self.num_slots * remaining))


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfsRow(PrepaidRow):
    """Row of a job: fields of the same names as those of the job or of the decision on it."""

    decision: FcfsDecision | None = None
    finish: int | None = None
    node: str | None = None


class FcfsProjection(PrepaidProjection[FcfsJob]):
    """Projection of a job for the API."""

    row: ClassVar[type[JobRow]] = FcfsRow
    reasons: ClassVar[Mapping[Reason, str]] = {
        Reason.NO_FEASIBLE_SCHEDULE: "it takes longer than its deadline allows, even alone",
        Reason.NO_CAPACITY: "the jobs before it leave too little time before its deadline",
        Reason.UNPROFITABLE: "the bid is not above the price",
        Reason.OVER_BUDGET: "the price is above what is left of the budget",
    }

    def __init__(self) -> None:
        self.messages = {
            **COMMON_MESSAGES,
            EventType.DECIDED: EventMessage(self.decision_message),
            FcfsStarted.type: EventMessage(lambda body: f"Trains on {body['node']}"),
        }

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        return {**self.market_fields(row), **self.price_fields(row, clock)}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        slot = row.body["finish"]
        return None if slot is None else clock.slot_end(slot)


@dataclass(kw_only=True)
class FcfsState(SlotJobState[FcfsJob]):
    """State of a zone."""

    projection: ClassVar[FcfsProjection] = FcfsProjection()

    jobs: dict[str, FcfsJob] = field(default_factory=dict)

    @property
    def queue(self) -> list[FcfsJob]:
        """Jobs on a node, then waiting jobs in order of arrival."""
        active = (Phase.PLANNED, Phase.TRAINING)
        jobs = [job for job in self.jobs.values() if job.phase in active]
        return sorted(jobs, key=lambda job: job.node is None)

    def expected_finish(self, num_nodes: int, num_slots: int) -> int:
        """Return the slot in which a job of `num_slots` slots would finish behind the queue."""
        free = [self.slot + 1] * num_nodes
        for job in self.queue:
            heapq.heappush(free, heapq.heappop(free) + job.remaining_slots)
        return heapq.heappop(free) + num_slots - 1

    def free_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Return the nodes without a job."""
        busy = {job.node for job in self.jobs.values()}
        return [node for node in nodes if node not in busy]

    def admit(self, event: ZoneEvent, data: FcfsDecided, pending: PendingJob) -> FcfsJob:
        job = FcfsJob(
            **vars(pending),
            size=data.size,
            decision=data.decision,
            deadline=data.deadline,
            num_slots=data.num_slots,
            finish=data.finish,
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _started(self, event: ZoneEvent, data: FcfsStarted) -> Effects:
        job = self.jobs[job_of(event)]
        job.node = data.node
        return self.show(event, job)

    def _trained(self, event: ZoneEvent, data: JobTrained) -> Effects:
        effects, job = super()._trained(event, data), self.jobs[job_of(event)]
        if job.phase is Phase.TRAINED:
            job.node = None
        return effects

    def _paused(self, event: ZoneEvent, data: JobPaused) -> Effects:
        self.jobs[job_of(event)].node = None
        return super()._paused(event, data)

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlotJobState.reducers,
        FcfsDecided: SlotJobState._decided,
        FcfsStarted: _started,
        JobTrained: _trained,
        JobPaused: _paused,
    }


FcfsModel = ZoneModel[FcfsState, None]
