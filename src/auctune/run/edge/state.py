"""State of a run, from its event log.

| event | meaning |
| --- | --- |
| begun {version} | the run exists |
| offered {job, slot, decision} | a bid was decided on |
| trained {job, slot, outcome} | a job's slot is trained, and its checkpoint written |
| site_lost {site, now, replanned} | a site runs nothing from slot `now` on; its jobs' new plans |
| refunded {job, slot} | a job needs rows that were lost with a site: it trains no more |
| slot_done {slot} | a slot is over |
| ended {} | the run is over |

`replanned` is a list of {job, torn, found}: `torn`, whether the slot before `now` was lost;
`found`, the plan of the rest, or null: refunded. A loss and what follows from it are one event, so
that there is never one without the other.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
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
from auctune.run.edge.edge_folder import OUTCOME, SlotOutcome
from auctune.run.event_log import EventRecord
from auctune.sim.edge.decision_file import (
    edge_decision_json,
    parse_edge_decision,
    parse_slots,
    slots_json,
)
from auctune.sim.edge.instance_file import EdgeInstance

VERSION = 2


@dataclass
class JobRecord:
    """One job of a run.

    Attributes:
        job: the bid.
        decision: on it.
        plan: slots that were trained, and those to come; None if it was rejected.
        trained: outcomes by slot.
        num_torn: number of slots that were lost.
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
            and not self.diverged
            and all(part.slot in self.trained for part in self.plan.slots)
        )

    @property
    def diverged(self) -> bool:
        """Whether its training has diverged, which ends it and is not refunded."""
        return any(outcome.diverged for outcome in self.trained.values())

    @property
    def is_running(self) -> bool:
        """Whether something is left to do."""
        ended = self.refunded or self.diverged or self.is_done
        return self.plan is not None and not ended

    def part(self, slot: int) -> SlotPlan | None:
        """Return what is to be trained in a slot, or None."""
        if not self.is_running or self.plan is None or slot in self.trained:
            return None
        return next((part for part in self.plan.slots if part.slot == slot), None)

    def taken(self, slot: int) -> Counter[str]:
        """Return the chunks by origin that slots before one have trained."""
        taken: Counter[str] = Counter()
        for part in self.plan.before(slot).slots if self.plan else ():
            for move in part.moves:
                taken[move.origin] += move.chunks
        return taken


@dataclass
class EdgeRunState:
    """All that a resumed run needs, beside checkpoints.

    Attributes:
        instance: market and jobs.
        eris: the mechanism, with all that it has sold.
        jobs: that were decided on, in that order.
        lost: lost sites, by the slot since when.
        slot: the running slot, or the next one.
        ended: whether the run is over.
    """

    instance: EdgeInstance
    eris: Eris
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    slot: int = 0
    ended: bool = False

    def replay(self, events: Iterable[EventRecord]) -> None:
        """Apply recorded events, to the mechanism too."""
        for event in events:
            self.eris_applies(event)
            self.apply(event)

    def commitments(self) -> list[EdgeCommitment]:
        """Return the running jobs and their plans for the mechanism."""
        return [
            EdgeCommitment(record.job, record.plan)
            for record in self.jobs.values()
            if record.is_running and record.plan is not None
        ]

    def apply(self, event: EventRecord) -> None:
        """Apply one event; the mechanism has it already."""
        kind = event["type"]
        if kind == "offered":
            decision = parse_edge_decision(event["decision"])
            job = next(job for job in self.instance.jobs if job.id == event["job"])
            self.jobs[job.id] = JobRecord(job, decision, decision.plan)
        elif kind == "trained":
            outcome = OUTCOME.validate_python(event["outcome"])
            self.jobs[event["job"]].trained[event["slot"]] = outcome
        elif kind == "site_lost":
            self.lost[event["site"]] = event["now"]
            for one in event["replanned"]:
                self._replan(one, event["now"])
        elif kind == "refunded":
            self.jobs[event["job"]].refunded = True
        elif kind == "slot_done":
            self.slot = event["slot"] + 1
        else:
            self.ended = kind == "ended"

    def eris_applies(self, event: EventRecord) -> None:
        """Apply one event to the mechanism."""
        kind = event["type"]
        if kind == "offered":
            job = next(job for job in self.instance.jobs if job.id == event["job"])
            decision = parse_edge_decision(event["decision"])
            self.eris.apply(EdgeOffered(job, decision, event["slot"]))
        elif kind == "site_lost":
            now = event["now"]
            self.eris.apply(SiteLost(event["site"], now))
            # All released their plans first: sums of floats depend on their order.
            for one in event["replanned"]:
                record = self.jobs[one["job"]]
                assert record.plan is not None
                self.eris.apply(EdgeReplanned(record.job, now, record.plan.since(now), None))
            for one in event["replanned"]:
                found = _plan(one["found"])
                self.eris.apply(EdgeReplanned(self.jobs[one["job"]].job, now, EdgePlan(()), found))

        elif kind == "refunded":
            self._release(event["job"], event["slot"])
        elif kind == "trained" and OUTCOME.validate_python(event["outcome"]).diverged:
            self._release(event["job"], event["slot"] + 1)

    def _release(self, job: str, now: int) -> None:
        """Give the mechanism back what a job that has ended was to use from slot `now` on."""
        record = self.jobs[job]
        assert record.plan is not None
        self.eris.apply(EdgeReplanned(record.job, now, record.plan.since(now), None))

    def _replan(self, one: dict[str, Any], now: int) -> None:
        record, found = self.jobs[one["job"]], _plan(one["found"])
        assert record.plan is not None
        kept = record.plan.before(now - 1 if one["torn"] else now).slots
        record.num_torn += bool(one["torn"])
        record.refunded = found is None
        record.plan = EdgePlan((*kept, *(found.slots if found else ())))


def offered_event(slot: int, job: str, decision: EdgeDecision) -> EventRecord:
    """Return the event of a decision."""
    return {"type": "offered", "slot": slot, "job": job, "decision": edge_decision_json(decision)}


def trained_event(slot: int, job: str, outcome: SlotOutcome) -> EventRecord:
    """Return the event of a trained slot."""
    record = OUTCOME.dump_python(outcome)
    return {"type": "trained", "slot": slot, "job": job, "outcome": record}


def site_lost_event(
    site: str, now: int, found: Sequence[EdgeReplanned], torn: set[str]
) -> EventRecord:
    """Return the event of a site that is lost from slot `now` on, with its jobs' new plans."""
    replanned = [
        {
            "job": one.job.id,
            "torn": one.job.id in torn,
            "found": None if one.found is None else slots_json(one.found),
        }
        for one in found
    ]
    return {"type": "site_lost", "site": site, "now": now, "replanned": replanned}


def without(plan: EdgePlan, slot: int) -> EdgePlan:
    """Return a plan without a slot that was lost."""
    return EdgePlan(tuple(part for part in plan.slots if part.slot != slot))


def _plan(data: list[dict[str, Any]] | None) -> EdgePlan | None:
    return None if data is None else EdgePlan(parse_slots(data))
