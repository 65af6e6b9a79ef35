"""What an edge zone has come to: a fold over its events."""

from collections.abc import Callable
from dataclasses import dataclass, field

from auctune.domain import Money
from auctune.edge import EdgePlan
from auctune.run.edge.plain import read_decision, read_job, read_plan
from auctune.service.jobs.training import Training
from auctune.service.ledger.entry import charge, earn, refund
from auctune.service.zones.change import Change
from auctune.service.zones.edge.event import EdgeKind
from auctune.service.zones.edge.facts import SiteFacts
from auctune.service.zones.edge.job_rows import closed_row, nothing_own, open_row
from auctune.service.zones.edge.open_job import Phase, SiteJob
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.fold import apply
from auctune.service.zones.job_row import Status
from auctune.service.zones.metered.progress import Progress
from auctune.service.zones.received import Received, receive


@dataclass
class EdgeState:
    """Open jobs of a zone, and its sites.

    Attributes:
        seq: of the newest event applied.
        slot: the newest slot that began; -1 before the first.
        received: jobs that wait for a decision, by id.
        jobs: admitted jobs that are not over, by id.
        lost: sites that run nothing.
    """

    seq: int = 0
    slot: int = -1
    received: dict[str, Received] = field(default_factory=dict)
    jobs: dict[str, SiteJob] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    def apply(self, event: ZoneEvent) -> Change:
        """Take over what happened."""
        return apply(_HANDLERS, self, event)

    def _began(self, event: ZoneEvent) -> Change:
        self.slot = event.body["slot"]
        return Change()

    def _received(self, event: ZoneEvent) -> Change:
        return receive(self.received, event, nothing_own())

    def _decided(self, event: ZoneEvent) -> Change:
        body = event.body
        waiting = self.received.pop(_id(event), None)
        seq = event.seq if waiting is None else waiting.seq
        created_at = event.at if waiting is None else waiting.created_at
        answer = read_decision(body["answer"])
        if answer.plan is None:
            return Change((closed_row(event, seq, created_at, Status.FAILED, None),))
        job = SiteJob(
            id=_id(event),
            seq=seq,
            owner=body["owner"],
            training=Training.from_record(body["training"]),
            facts=SiteFacts.from_record(body["facts"]),
            created_at=created_at,
            request=body["request"],
            job=read_job(body["job"]),
            last=body["last"],
            decision=body["decision"],
            plan=answer.plan,
        )
        job.progress = Progress(total_rows=job.total_rows)
        self.jobs[job.id] = job
        return Change((open_row(job, event),), charge(job.owner, answer.payment))

    def _trained(self, event: ZoneEvent) -> Change:
        job, body = self.jobs[_id(event)], event.body
        slot, outcome = body["slot"], body["outcome"]
        assert slot not in job.trained, slot
        job.trained.append(slot)
        job.steps = outcome["steps"]
        job.crossed_mb += (outcome["chunk_bytes"] + outcome["parameter_bytes"]) / 1e6
        job.progress = job.progress.after(body["result"])
        if job.is_trained:
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return Change((open_row(job, event),))

    def _released(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.release(event.slot, event.body["torn"])
        return Change((open_row(job, event),))

    def _replanned(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        found = read_plan(event.body["found"])
        job.plan = EdgePlan((*job.plan.slots, *found.slots))
        if job.phase is Phase.PAUSED:
            job.phase = Phase.TRAINING if job.trained else Phase.PLANNED
        return Change((open_row(job, event),))

    def _paused(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.release(event.slot, [])
        job.phase = Phase.PAUSED
        return Change((open_row(job, event),))

    def _noted(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.notes.append(event.body["text"])
        return Change((open_row(job, event),))

    def _lost(self, event: ZoneEvent) -> Change:
        self.lost.add(event.body["site"])
        return Change()

    def _returned(self, event: ZoneEvent) -> Change:
        self.lost.discard(event.body["site"])
        return Change()

    def _cancelled(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.CANCELLED, refunded=False)

    def _finished(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.SUCCEEDED, refunded=False)

    def _failed(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.FAILED, refunded=event.body["refund"])

    def _close(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Change:
        waiting = self.received.pop(_id(event), None)
        if waiting is not None:
            return Change((closed_row(event, waiting.seq, waiting.created_at, status, waiting),))
        job = self.jobs.pop(_id(event))
        payment = Money(job.decision["payment"])
        entries = refund(job.owner, payment) if refunded else earn(payment)
        return Change((closed_row(event, job.seq, job.created_at, status, job),), entries)


def _id(event: ZoneEvent) -> str:
    assert event.job is not None
    return event.job


_HANDLERS: dict[str, Callable[[EdgeState, ZoneEvent], Change]] = {
    Kind.SLOT_BEGAN: EdgeState._began,
    Kind.RECEIVED: EdgeState._received,
    Kind.DECIDED: EdgeState._decided,
    Kind.TRAINED: EdgeState._trained,
    EdgeKind.RELEASED: EdgeState._released,
    EdgeKind.REPLANNED: EdgeState._replanned,
    Kind.PAUSED: EdgeState._paused,
    Kind.RESUMED: EdgeState._replanned,
    Kind.JOB_NOTED: EdgeState._noted,
    EdgeKind.SITE_LOST: EdgeState._lost,
    EdgeKind.SITE_RETURNED: EdgeState._returned,
    Kind.CANCELLED: EdgeState._cancelled,
    Kind.FINISHED: EdgeState._finished,
    Kind.FAILED: EdgeState._failed,
}
