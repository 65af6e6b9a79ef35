"""State of an edge zone, and its model: state and mechanism, folded from the same events."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from auctune.domain import Money, read_snapshot
from auctune.edge import (
    EdgeAdvanced,
    EdgeEvent,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    Eris,
    SiteLost,
    SiteReturned,
)
from auctune.run.edge.plain import read_decision, read_job, read_plan
from auctune.service.config.edge import read_supply
from auctune.service.ledger import Entry, charge
from auctune.service.zones.core import projection
from auctune.service.zones.core.events import EventType, ZoneEvent, job_of
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, ZoneState, reduce
from auctune.service.zones.core.zone import GivenUp
from auctune.service.zones.edge.job import EdgeEventType, EdgeJobState
from auctune.service.zones.edge.projection import PROJECTION, EdgeProjection
from auctune.service.zones.edge.site_datasets import SiteDatasets


@dataclass
class EdgeState(ZoneState[EdgeJobState]):
    """Open jobs of a zone, and its sites.

    Attributes:
        slot: the newest slot that began; -1 before the first.
        lost: sites that run nothing.
    """

    slot: int = -1
    lost: set[str] = field(default_factory=set)

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over what happened."""
        return reduce(_HANDLERS, self, event)

    @property
    def rows(self) -> EdgeProjection:
        """Makes rows of its jobs."""
        return PROJECTION

    def admit(self, event: ZoneEvent, asked: PendingJob) -> EdgeJobState:
        """A job that an event admits."""
        body = event.body
        plan = read_decision(body["answer"]).plan
        assert plan is not None
        job = EdgeJobState(
            **vars(asked),
            facts=SiteDatasets.from_record(body["facts"]),
            job=read_job(body["job"]),
            deadline_slot=body["last"],
            decision=body["decision"],
            plan=plan,
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def admission_entries(self, job: EdgeJobState) -> tuple[Entry, ...]:
        """It is charged at once."""
        return charge(job.owner, Money(job.decision["payment"]))

    def settlement_entries(self, job: EdgeJobState, *, refunded: bool) -> tuple[Entry, ...]:
        """Its price is earned, or given back."""
        return projection.settlement(job.owner, Money(job.decision["payment"]), refunded=refunded)

    def _began(self, event: ZoneEvent) -> Effects:
        self.slot = event.body["slot"]
        return Effects()

    def _trained(self, event: ZoneEvent) -> Effects:
        job, body = self.jobs[job_of(event)], event.body
        slot, outcome = body["slot"], body["outcome"]
        assert slot not in job.trained, slot
        job.trained.append(slot)
        job.out_of_memory.clear()
        job.steps = outcome["steps"]
        job.transferred_mb += (outcome["chunk_bytes"] + outcome["parameter_bytes"]) / 1e6
        job.progress = job.progress.after(body["result"])
        if job.is_trained:
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return Effects((self.rows.open(event, job),))

    def _out_of_memory(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.out_of_memory.append(event.body["slot"])
        return self._noted(event)

    def _released(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, event.body["torn"])
        return Effects((self.rows.open(event, job),))

    def _replanned(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        found = read_plan(event.body["found"])
        job.plan = EdgePlan((*job.plan.slots, *found.slots))
        if job.phase is Phase.PAUSED:
            job.phase = Phase.TRAINING if job.trained else Phase.PLANNED
        return Effects((self.rows.open(event, job),))

    def _paused(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, [])
        job.phase = Phase.PAUSED
        job.given_up = GivenUp.from_record(event.body["given_up_for"])
        return Effects((self.rows.open(event, job),))

    def _lost(self, event: ZoneEvent) -> Effects:
        self.lost.add(event.body["site"])
        return Effects()

    def _returned(self, event: ZoneEvent) -> Effects:
        self.lost.discard(event.body["site"])
        return Effects()


_HANDLERS: dict[str, Callable[[EdgeState, ZoneEvent], Effects]] = {
    **JOB_REDUCERS,
    EventType.SLOT_BEGAN: EdgeState._began,
    EventType.TRAINED: EdgeState._trained,
    EventType.OUT_OF_MEMORY: EdgeState._out_of_memory,
    EdgeEventType.RELEASED: EdgeState._released,
    EdgeEventType.REPLANNED: EdgeState._replanned,
    EventType.PAUSED: EdgeState._paused,
    EventType.RESUMED: EdgeState._replanned,
    EdgeEventType.SITE_LOST: EdgeState._lost,
    EdgeEventType.SITE_RETURNED: EdgeState._returned,
}


# The model: state and mechanism, folded from the same events.
#
# The mechanism is asked without a side effect and changed by events alone, so that live and after
# a restart it does the same sums in the same order, and is the same to the last bit.

_GIVES_UP = (EdgeEventType.RELEASED, EventType.PAUSED, EventType.CANCELLED, EventType.FAILED)


@dataclass(frozen=True, slots=True)
class EdgeModel:
    """State and mechanism."""

    state: EdgeState
    mechanism: Eris

    @property
    def seq(self) -> int:
        """Of the newest event applied."""
        return self.state.seq

    @property
    def received(self) -> Mapping[str, PendingJob]:
        """Jobs that wait for a decision, by id."""
        return self.state.received

    @property
    def jobs(self) -> Mapping[str, EdgeJobState]:
        """Admitted jobs that are not over, by id."""
        return self.state.jobs

    def load(self, body: bytes) -> None:
        """Take over a snapshot."""
        saved = read_snapshot(body)
        self.mechanism.load(saved["eris"])
        record = orjson.loads(saved["state"].tobytes())
        state = self.state
        state.seq, state.slot, state.lost = record["seq"], record["slot"], set(record["lost"])
        for one in map(PendingJob.from_record, record["received"]):
            state.received[one.id] = one
        for job in map(EdgeJobState.from_record, record["jobs"]):
            state.jobs[job.id] = job

    def save(self) -> dict[str, Any]:
        """All of it in words; nothing of it changes when the zone goes on."""
        state = self.state
        record = {
            "seq": state.seq,
            "slot": state.slot,
            "lost": sorted(state.lost),
            "received": [one.to_record() for one in state.received.values()],
            "jobs": [job.to_record() for job in state.jobs.values()],
        }
        # As bytes: names that users chose stand for nothing in it.
        text = np.frombuffer(orjson.dumps(record), dtype=np.uint8)
        return {"state": text, "eris": self.mechanism.save()}

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over one event."""
        for told in to_mechanism_events(event, self.state):
            self.mechanism.apply(told)
        return self.state.apply(event)


def empty_model(opened: dict[str, Any]) -> EdgeModel:
    """Of a zone in which nothing is sold, as the event with which it opened says."""
    return EdgeModel(EdgeState(), Eris(*read_supply(opened)))


def to_mechanism_events(event: ZoneEvent, state: EdgeState) -> Iterator[EdgeEvent]:
    """What an event means to the mechanism.

    Args:
        event: from the log.
        state: as it was before the event.
    """
    body, after = event.body, event.slot + 1
    job = None if event.job is None else state.jobs.get(event.job)
    if event.kind == EventType.SLOT_BEGAN:
        yield EdgeAdvanced(body["slot"])
    elif event.kind == EventType.DECIDED:
        yield EdgeOffered(read_job(body["job"]), read_decision(body["answer"]), event.slot)
    elif event.kind in _GIVES_UP and job is not None:
        rest = job.plan.since(after)
        if rest.slots:
            yield EdgeReplanned(job.job, after, rest, None)
    elif event.kind in (EdgeEventType.REPLANNED, EventType.RESUMED) and job is not None:
        found = read_plan(body["found"])
        if found.slots:
            yield EdgeReplanned(job.job, after, EdgePlan(()), found)
    elif event.kind == EdgeEventType.SITE_LOST:
        yield SiteLost(body["site"], after)
    elif event.kind == EdgeEventType.SITE_RETURNED:
        yield SiteReturned(body["site"], after)
