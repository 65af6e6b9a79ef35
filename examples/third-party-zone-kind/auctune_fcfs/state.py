"""State of a zone of kind `fcfs`: jobs, the queue, and what the API shows of a job."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from auctune.domain import Money, Reason
from auctune.domain.data_size import DataSize
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent, job_of
from auctune.service.zones.core.job import PendingJob, Phase, Progress, SlotJob
from auctune.service.zones.core.projection import COMMON_MESSAGES, EventMessage, PrepaidProjection
from auctune.service.zones.core.read_model import Effects, JobReadModel, Record
from auctune.service.zones.core.state import JOB_REDUCERS, Reducer, ZoneModel, ZoneState


class FcfsEventType(StrEnum):
    """Events that other kinds do not have."""

    STARTED = "job.started"


@dataclass(kw_only=True)
class FcfsJob(SlotJob):
    """An admitted job.

    Attributes:
        decision: as recorded.
        deadline: unix time.
        num_slots: that it takes, by estimate, alone on a node.
        finish: slot in which it was expected to finish when it was admitted.
        node: on which it trains, or None while it waits.
    """

    decision: dict[str, Any]
    deadline: float
    num_slots: int
    finish: int
    node: str | None = None

    @property
    def payment(self) -> Money:
        return Money(self.decision["payment"])

    @property
    def remaining_slots(self) -> int:
        """Slots that it still takes, by estimate."""
        remaining = 1 - self.progress.rows / self.total_rows
        return max(1, math.ceil(self.num_slots * remaining))


class FcfsProjection(PrepaidProjection[FcfsJob]):
    """What the API shows of a job."""

    default_fields: ClassVar[Record] = {
        "earliest": None,
        "budget_left": None,
        "finish": None,
        "node": None,
    }
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
            FcfsEventType.STARTED: EventMessage(lambda body: f"Trains on {body['node']}"),
        }

    def job_fields(self, job: FcfsJob) -> Record:
        return {
            "size": job.size.to_record(),
            "decision": job.decision,
            "finish": job.finish,
            "node": job.node,
        }

    def decision_fields(self, body: Record) -> Record:
        names = ("size", "decision", "finish", "earliest", "budget_left")
        return {name: body[name] for name in names}

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        return {**self.market_fields(row), **self.price_fields(row, clock)}

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        slot = row.body["finish"]
        return None if slot is None else clock.slot_end(slot)


@dataclass(kw_only=True)
class FcfsState(ZoneState[FcfsJob]):
    """State of a zone.

    Attributes:
        slot: the newest slot that began; -1 before the first.
    """

    projection: ClassVar[FcfsProjection] = FcfsProjection()

    jobs: dict[str, FcfsJob] = field(default_factory=dict)
    slot: int = -1

    @property
    def queue(self) -> list[FcfsJob]:
        """Jobs that are to train: first those on a node, then the others in order of arrival."""
        active = (Phase.PLANNED, Phase.TRAINING)
        jobs = [job for job in self.jobs.values() if job.phase in active]
        return sorted(jobs, key=lambda job: job.node is None)

    def expected_finish(self, num_nodes: int, num_slots: int) -> int:
        """Return the slot in which a job of so many slots would finish behind the queue."""
        free = [self.slot + 1] * num_nodes
        for job in self.queue:
            heapq.heappush(free, heapq.heappop(free) + job.remaining_slots)
        return heapq.heappop(free) + num_slots - 1

    def free_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Return the nodes without a job."""
        busy = {job.node for job in self.jobs.values()}
        return [node for node in nodes if node not in busy]

    def admit(self, event: ZoneEvent, pending: PendingJob) -> FcfsJob:
        body = event.body
        job = FcfsJob(
            **vars(pending),
            size=DataSize.from_record(body["size"]),
            decision=body["decision"],
            deadline=body["deadline"],
            num_slots=body["num_slots"],
            finish=body["finish"],
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _began(self, event: ZoneEvent) -> Effects:
        self.slot = event.body["slot"]
        return Effects()

    def _started(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.node = event.body["node"]
        return self.show(event, job)

    def _trained(self, event: ZoneEvent) -> Effects:
        job, result = self.jobs[job_of(event)], event.body["result"]
        job.progress = job.progress.after(result)
        job.last_reported_slot = event.body["slot"]
        job.out_of_memory.clear()
        if result["state"] == "done":
            job.phase, job.node = Phase.TRAINED, None
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return self.show(event, job)

    def _paused(self, event: ZoneEvent) -> Effects:
        self.jobs[job_of(event)].node = None
        return super()._paused(event)

    def _resumed(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.continue_phase(has_trained=bool(job.progress.rows))
        return self.show(event, job)

    reducers: ClassVar[Mapping[str, Reducer]] = {
        **JOB_REDUCERS,
        EventType.SLOT_BEGAN: _began,
        FcfsEventType.STARTED: _started,
        EventType.TRAINED: _trained,
        EventType.PAUSED: _paused,
        EventType.RESUMED: _resumed,
    }


FcfsModel = ZoneModel[FcfsState, None]
