"""State of an edge zone."""

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
from auctune.engine.edge.records import read_job
from auctune.service.config.edge import read_supply
from auctune.service.storage.events import ZoneEvent, job_of
from auctune.service.storage.read_model import Effects, Status
from auctune.service.zones.core.events import EventData, JobCancelled, JobFailed, SlotStarted
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.state import Reducer, SlottedState, ZoneModel
from auctune.service.zones.edge.events import (
    EdgeDecided,
    EdgePaused,
    EdgeResumed,
    EdgeTrained,
    PlanReleased,
    PlanReplaced,
    SiteDown,
    SiteUp,
)
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.projection import EdgeProjection


@dataclass(kw_only=True)
class EdgeState(SlottedState[EdgeJobState]):
    """State of an edge zone.

    Attributes:
        lost: sites that run nothing.
    """

    projection: ClassVar[EdgeProjection] = EdgeProjection()

    jobs: dict[str, EdgeJobState] = field(default_factory=dict)
    lost: Annotated[set[str], PlainSerializer(sorted)] = field(default_factory=set)

    def mechanism_events(self, event: ZoneEvent, data: EventData) -> Iterator[EdgeEvent]:
        after = event.slot + 1
        job = None if event.job is None else self.jobs.get(event.job)
        match data:
            case SlotStarted():
                yield EdgeAdvanced(data.slot)
            case EdgeDecided():
                yield EdgeOffered(data.job, data.answer, event.slot)
            case PlanReleased() | EdgePaused() | JobCancelled() | JobFailed() if job is not None:
                rest = job.plan.since(after)
                if rest.slots:
                    yield EdgeReplanned(job.job, after, rest, None)
            case PlanReplaced() | EdgeResumed() if job is not None:
                if data.found.slots:
                    yield EdgeReplanned(job.job, after, EdgePlan(()), data.found)
            case SiteDown():
                yield SiteLost(data.site, after)
            case SiteUp():
                yield SiteReturned(data.site, after)

    def admit(self, event: ZoneEvent, data: EdgeDecided, pending: PendingJob) -> EdgeJobState:
        plan = data.answer.plan
        assert plan is not None
        job = EdgeJobState(
            **vars(pending),
            facts=data.facts,
            job=data.job,
            deadline_slot=data.deadline_slot,
            decision=data.decision,
            plan=plan,
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _trained(self, event: ZoneEvent, data: EdgeTrained) -> Effects:
        job, outcome = self.jobs[job_of(event)], data.outcome
        assert data.slot not in job.trained, data.slot
        job.trained.append(data.slot)
        job.out_of_memory.clear()
        job.steps = outcome["steps"]
        job.transferred_mb += (outcome["chunk_bytes"] + outcome["parameter_bytes"]) / 1e6
        job.progress = job.progress.after(data.result)
        if job.is_trained:
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return self.show(event, job)

    def _released(self, event: ZoneEvent, data: PlanReleased) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, data.failed_slots)
        return self.show(event, job)

    def _replanned(self, event: ZoneEvent, data: PlanReplaced | EdgeResumed) -> Effects:
        job = self.jobs[job_of(event)]
        job.plan = EdgePlan((*job.plan.slots, *data.found.slots))
        job.continue_phase(has_trained=bool(job.trained))
        return self.show(event, job)

    def _paused(self, event: ZoneEvent, data: EdgePaused) -> Effects:  # type: ignore[override]
        job = self.jobs[job_of(event)]
        job.release(event.slot, [])
        job.given_up = data.given_up_for
        return super()._paused(event, data)

    def _site_down(self, _event: ZoneEvent, data: SiteDown) -> Effects:
        self.lost.add(data.site)
        return Effects()

    def _site_up(self, _event: ZoneEvent, data: SiteUp) -> Effects:
        self.lost.discard(data.site)
        return Effects()

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlottedState.reducers,
        EdgeDecided: SlottedState._decided,
        EdgeTrained: _trained,
        PlanReleased: _released,
        PlanReplaced: _replanned,
        EdgePaused: _paused,
        EdgeResumed: _replanned,
        SiteDown: _site_down,
        SiteUp: _site_up,
    }


@dataclass(kw_only=True)
class InstanceState(EdgeState):
    """State of an edge market without a service, which ends with its last slot.

    Attributes:
        num_slots: of the market.
        ended: admitted jobs that have ended, by id.
    """

    num_slots: int
    ended: dict[str, EdgeJobState] = field(default_factory=dict)

    def _end(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Effects:
        name = job_of(event)
        self.ended[name] = self.jobs[name]
        return super()._end(event, status, refunded=refunded)

    def mechanism_events(self, event: ZoneEvent, data: EventData) -> Iterator[EdgeEvent]:
        # Nothing is sold any more after the last slot, in which a site may still be lost.
        is_over = event.slot + 1 >= self.num_slots
        if not (isinstance(data, SlotStarted) or (isinstance(data, SiteDown) and is_over)):
            yield from super().mechanism_events(event, data)


# The mechanism is changed by events only, so that it is bit-identical live and after a restart.
EdgeModel = ZoneModel[EdgeState, Eris]


def empty_model(opened: Mapping[str, Any]) -> EdgeModel:
    """Return the model of a zone in which nothing is sold, from the event that created it."""
    # A market without a service has bids of earlier days, and its window does not roll.
    history = [read_job(job) for job in opened.get("history", ())]
    rolls = opened.get("rolls", True)
    state = EdgeState() if rolls else InstanceState(num_slots=opened["slots"])
    return ZoneModel(state, Eris(*read_supply(opened), history))
