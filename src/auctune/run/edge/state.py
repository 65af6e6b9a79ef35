"""What a run has come to: a fold over its journal.

| event | says |
| --- | --- |
| begun {version} | that the run exists |
| offered {job, slot, decision} | the answer to a bid |
| trained {job, slot, outcome} | that a job's slot is trained, and its checkpoint written |
| site_lost {site, now, replanned} | that a site runs nothing from slot `now` on; its jobs' plans |
| slot_done {slot} | that a slot is over |
| ended {} | that all is over |

`replanned` is a list of {job, torn, found}: `torn`, whether the slot before `now` came to nothing;
`found`, the plan of the rest, or null: refunded. A loss and what follows from it are one event, so
that there is never one without the other. A checkpoint is written before its event, and its name
has its steps: a job that was killed in between trains the slot again, from the one before.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from auctune.edge.decision import (
    EdgeCommitment,
    EdgeDecision,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    SiteLost,
    SlotPlan,
)
from auctune.edge.eris import Eris
from auctune.edge.job import EdgeJob
from auctune.run.event_log import EventRecord
from auctune.sim.edge.decision_file import parse_edge_decision, parse_slots
from auctune.sim.edge.instance_file import EdgeInstance

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOutcome:
    """What came of a job's slot.

    Attributes:
        steps: of gradient descent since the job began.
        loss: of training, mean over the slot's last epoch.
        test_loss, accuracy: on the samples set apart, at the slot's end.
        seconds: that its steps took.
        chunks_crossed: chunks that workers fetched from other sites.
        workers_away: workers that stood at other sites than their server.
        chunk_bytes, parameter_bytes: that crossed sites.
    """

    steps: int
    loss: float
    test_loss: float
    accuracy: float
    seconds: float
    chunks_crossed: int
    workers_away: int
    chunk_bytes: int
    parameter_bytes: int


@dataclass
class JobRecord:
    """One job of a run.

    Attributes:
        job: the bid.
        decision: the answer to it.
        plan: what was trained, and what is to be; none: rejected.
        trained: what came of slots.
        num_torn: slots that came to nothing.
        refunded: whether it was given up.
    """

    job: EdgeJob
    decision: EdgeDecision
    plan: EdgePlan | None
    trained: dict[int, SlotOutcome] = field(default_factory=dict)
    num_torn: int = 0
    refunded: bool = False

    @property
    def is_done(self) -> bool:
        """Whether all its data are trained."""
        return (
            self.plan is not None
            and not self.refunded
            and all(part.slot in self.trained for part in self.plan.slots)
        )

    @property
    def is_running(self) -> bool:
        """Whether something is left to do."""
        return self.plan is not None and not self.refunded and not self.is_done

    def part(self, slot: int) -> SlotPlan | None:
        """What is to be trained in a slot; none if nothing is."""
        if not self.is_running or self.plan is None or slot in self.trained:
            return None
        return next((part for part in self.plan.slots if part.slot == slot), None)

    def taken(self, slot: int) -> Counter[str]:
        """Chunks by origin that slots before one have trained."""
        taken: Counter[str] = Counter()
        for part in self.plan.before(slot).slots if self.plan else ():
            for move in part.moves:
                taken[move.origin] += move.chunks
        return taken


@dataclass
class EdgeRunState:
    """All of a run that a resumed one must know, beside checkpoints.

    Attributes:
        instance: market and jobs.
        eris: the mechanism, with all that it has sold.
        jobs: those that were answered, in that order.
        lost: sites that are gone, by the slot since when.
        slot: the one that goes on, or comes next.
        ended: whether all is over.
    """

    instance: EdgeInstance
    eris: Eris
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    slot: int = 0
    ended: bool = False

    def replay(self, events: Iterable[EventRecord]) -> None:
        """Take over what is on record, the mechanism's part too."""
        for event in events:
            self.eris_applies(event)
            self.apply(event)

    def commitments(self) -> list[EdgeCommitment]:
        """Jobs that go on, by their plans."""
        return [
            EdgeCommitment(record.job, record.plan)
            for record in self.jobs.values()
            if record.is_running and record.plan is not None
        ]

    def apply(self, event: EventRecord) -> None:
        """Take over one event; the mechanism knows it already."""
        kind = event["type"]
        if kind == "offered":
            decision = parse_edge_decision(event["decision"])
            job = next(job for job in self.instance.jobs if job.id == event["job"])
            self.jobs[job.id] = JobRecord(job, decision, decision.plan)
        elif kind == "trained":
            outcome = SlotOutcome(**event["outcome"])
            self.jobs[event["job"]].trained[event["slot"]] = outcome
        elif kind == "site_lost":
            self.lost[event["site"]] = event["now"]
            for one in event["replanned"]:
                self._replan(one, event["now"])
        elif kind == "slot_done":
            self.slot = event["slot"] + 1
        else:
            self.ended = kind == "ended"

    def eris_applies(self, event: EventRecord) -> None:
        """Tell the mechanism what it decided before."""
        kind = event["type"]
        if kind == "offered":
            job = next(job for job in self.instance.jobs if job.id == event["job"])
            decision = parse_edge_decision(event["decision"])
            self.eris.apply(EdgeOffered(job, decision, event["slot"]))
        elif kind == "site_lost":
            now = event["now"]
            self.eris.apply(SiteLost(event["site"], now))
            # All gave up first: sums of floats depend on their order.
            for one in event["replanned"]:
                record = self.jobs[one["job"]]
                assert record.plan is not None
                self.eris.apply(EdgeReplanned(record.job, now, record.plan.since(now), None))
            for one in event["replanned"]:
                found = _plan(one["found"])
                self.eris.apply(EdgeReplanned(self.jobs[one["job"]].job, now, EdgePlan(()), found))

    def _replan(self, one: dict[str, Any], now: int) -> None:
        record, found = self.jobs[one["job"]], _plan(one["found"])
        assert record.plan is not None
        kept = record.plan.before(now - 1 if one["torn"] else now).slots
        record.num_torn += bool(one["torn"])
        record.refunded = found is None
        record.plan = EdgePlan((*kept, *(found.slots if found else ())))


def without(plan: EdgePlan, slot: int) -> EdgePlan:
    """A plan less a slot that came to nothing."""
    return EdgePlan(tuple(part for part in plan.slots if part.slot != slot))


def _plan(data: list[dict[str, Any]] | None) -> EdgePlan | None:
    return None if data is None else EdgePlan(parse_slots(data))
