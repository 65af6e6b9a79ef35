"""What an edge zone has come to: a fold over its events."""

from collections.abc import Callable
from dataclasses import dataclass, field

from auctune.domain import Money
from auctune.edge import EdgePlan
from auctune.run.edge.plain import read_decision, read_job, read_plan
from auctune.service.ledger import Entry, charge
from auctune.service.zones import fixed_price
from auctune.service.zones.change import Change
from auctune.service.zones.edge.event import EdgeKind
from auctune.service.zones.edge.facts import SiteFacts
from auctune.service.zones.edge.job_rows import ROWS, EdgeRows
from auctune.service.zones.edge.open_job import SiteJob
from auctune.service.zones.event import Kind, ZoneEvent, job_of
from auctune.service.zones.fold import apply
from auctune.service.zones.phase import Phase
from auctune.service.zones.progress import Progress
from auctune.service.zones.received import Received
from auctune.service.zones.slotted import GivenUp
from auctune.service.zones.state import OF_JOBS, JobsState


@dataclass
class EdgeState(JobsState[SiteJob]):
    """Open jobs of a zone, and its sites.

    Attributes:
        slot: the newest slot that began; -1 before the first.
        lost: sites that run nothing.
    """

    slot: int = -1
    lost: set[str] = field(default_factory=set)

    def apply(self, event: ZoneEvent) -> Change:
        """Take over what happened."""
        return apply(_HANDLERS, self, event)

    @property
    def rows(self) -> EdgeRows:
        """Makes rows of its jobs."""
        return ROWS

    def admit(self, event: ZoneEvent, asked: Received) -> SiteJob:
        """A job that an event admits."""
        body = event.body
        plan = read_decision(body["answer"]).plan
        assert plan is not None
        job = SiteJob(
            **vars(asked),
            facts=SiteFacts.from_record(body["facts"]),
            job=read_job(body["job"]),
            deadline_slot=body["last"],
            decision=body["decision"],
            plan=plan,
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def admission_entries(self, job: SiteJob) -> tuple[Entry, ...]:
        """It is charged at once."""
        return charge(job.owner, Money(job.decision["payment"]))

    def settlement_entries(self, job: SiteJob, *, refunded: bool) -> tuple[Entry, ...]:
        """Its price is earned, or given back."""
        return fixed_price.end(job.owner, Money(job.decision["payment"]), refunded=refunded)

    def _began(self, event: ZoneEvent) -> Change:
        self.slot = event.body["slot"]
        return Change()

    def _trained(self, event: ZoneEvent) -> Change:
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
        return Change((self.rows.open(event, job),))

    def _out_of_memory(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        job.out_of_memory.append(event.body["slot"])
        return self._noted(event)

    def _released(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        job.release(event.slot, event.body["torn"])
        return Change((self.rows.open(event, job),))

    def _replanned(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        found = read_plan(event.body["found"])
        job.plan = EdgePlan((*job.plan.slots, *found.slots))
        if job.phase is Phase.PAUSED:
            job.phase = Phase.TRAINING if job.trained else Phase.PLANNED
        return Change((self.rows.open(event, job),))

    def _paused(self, event: ZoneEvent) -> Change:
        job = self.jobs[job_of(event)]
        job.release(event.slot, [])
        job.phase = Phase.PAUSED
        job.given_up = GivenUp.from_record(event.body["given_up_for"])
        return Change((self.rows.open(event, job),))

    def _lost(self, event: ZoneEvent) -> Change:
        self.lost.add(event.body["site"])
        return Change()

    def _returned(self, event: ZoneEvent) -> Change:
        self.lost.discard(event.body["site"])
        return Change()


_HANDLERS: dict[str, Callable[[EdgeState, ZoneEvent], Change]] = {
    **OF_JOBS,
    Kind.SLOT_BEGAN: EdgeState._began,
    Kind.TRAINED: EdgeState._trained,
    Kind.OUT_OF_MEMORY: EdgeState._out_of_memory,
    EdgeKind.RELEASED: EdgeState._released,
    EdgeKind.REPLANNED: EdgeState._replanned,
    Kind.PAUSED: EdgeState._paused,
    Kind.RESUMED: EdgeState._replanned,
    EdgeKind.SITE_LOST: EdgeState._lost,
    EdgeKind.SITE_RETURNED: EdgeState._returned,
}
