"""State of an edge zone, and the events of its mechanism."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import PlainSerializer

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
from auctune.service.zones.core.events import EventType, ZoneEvent, adapter, job_of
from auctune.service.zones.core.job import GivenUp, PendingJob, Phase, Progress
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, Reducer, ZoneModel, ZoneState
from auctune.service.zones.edge.job import EdgeEventType, EdgeJobState
from auctune.service.zones.edge.projection import EdgeProjection
from auctune.service.zones.edge.site_datasets import SiteDatasets


@dataclass(kw_only=True)
class EdgeState(ZoneState[EdgeJobState]):
    """State of an edge zone.

    Attributes:
        slot: the newest slot that began; -1 before the first.
        lost: sites that run nothing.
    """

    projection: ClassVar[EdgeProjection] = EdgeProjection()

    jobs: dict[str, EdgeJobState] = field(default_factory=dict)
    slot: int = -1
    lost: Annotated[set[str], PlainSerializer(sorted)] = field(default_factory=set)

    def mechanism_events(self, event: ZoneEvent) -> Iterator[EdgeEvent]:
        return to_mechanism_events(event, self)

    def admit(self, event: ZoneEvent, pending: PendingJob) -> EdgeJobState:
        body = event.body
        plan = read_decision(body["answer"]).plan
        assert plan is not None
        job = EdgeJobState(
            **vars(pending),
            facts=adapter(SiteDatasets).validate_python(body["facts"]),
            job=read_job(body["job"]),
            deadline_slot=body["last"],
            decision=body["decision"],
            plan=plan,
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

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
        return self.show(event, job)

    def _released(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, event.body["torn"])
        return self.show(event, job)

    def _replanned(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        found = read_plan(event.body["found"])
        job.plan = EdgePlan((*job.plan.slots, *found.slots))
        job.continue_phase(has_trained=bool(job.trained))
        return self.show(event, job)

    def _paused(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, [])
        given_up = event.body["given_up_for"]
        job.given_up = None if given_up is None else adapter(GivenUp).validate_python(given_up)
        return super()._paused(event)

    def _lost(self, event: ZoneEvent) -> Effects:
        self.lost.add(event.body["site"])
        return Effects()

    def _returned(self, event: ZoneEvent) -> Effects:
        self.lost.discard(event.body["site"])
        return Effects()

    reducers: ClassVar[Mapping[str, Reducer]] = {
        **JOB_REDUCERS,
        EventType.SLOT_BEGAN: _began,
        EventType.TRAINED: _trained,
        EdgeEventType.RELEASED: _released,
        EdgeEventType.REPLANNED: _replanned,
        EventType.PAUSED: _paused,
        EventType.RESUMED: _replanned,
        EdgeEventType.SITE_LOST: _lost,
        EdgeEventType.SITE_RETURNED: _returned,
    }


# The mechanism is changed by events only, so that it is bit-identical live and after a restart.
EdgeModel = ZoneModel[EdgeState, Eris]


def empty_model(opened: Mapping[str, Any]) -> EdgeModel:
    """Return the model of a zone in which nothing is sold, from the event that created it."""
    return ZoneModel(EdgeState(), Eris(*read_supply(dict(opened))))


_GIVES_UP = (EdgeEventType.RELEASED, EventType.PAUSED, EventType.CANCELLED, EventType.FAILED)


def to_mechanism_events(event: ZoneEvent, state: EdgeState) -> Iterator[EdgeEvent]:
    """Yield what a recorded event means to the mechanism.

    Args:
        event: of the zone.
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
