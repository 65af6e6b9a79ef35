"""Replay of an edge zone's log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from auctune.domain import InputError, Money
from auctune.edge import EdgeDecision, EdgeEntry, EdgeJob, EdgeMenuLine, Eris
from auctune.edge.job import MOST_CELLS
from auctune.engine.edge.records import plan_record, read_decision, read_job
from auctune.registry.policies import EDGE_ENTRIES
from auctune.replay.compare import Progress, ZoneReplay
from auctune.replay.verify import Body, LogVerifier, Rule
from auctune.service.config.edge import read_supply
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.edge.state import EdgeDecided, EdgeEventType, EdgeState, empty_model
from auctune.service.zones.edge.zone import (
    EdgeOutcome,
    accept_line,
    decide,
    outcome_fields,
    over_budget,
    plan_remaining,
)
from auctune.sim.comparison import Entry


class EdgeVerifier(LogVerifier[EdgeState, Eris]):
    """Verifies an edge zone's log: answers, accepted lines and new plans, by Eris."""

    count_names = ("decisions", "payments")

    def __init__(self, opened: Body) -> None:
        super().__init__(empty_model(opened))

    def counts_of(self, event: ZoneEvent) -> Iterator[str]:
        if event.type == EventType.DECIDED:
            yield "decisions"
            if event.body["decision"]["admitted"]:
                yield "payments"

    def decided_body(self, event: ZoneEvent) -> Body | None:
        data = self.state.decode(event)
        assert isinstance(data, EdgeDecided)
        outcome = self._outcome(data)
        return None if outcome is None else replace(data, **outcome_fields(outcome)).body()

    def _outcome(self, data: EdgeDecided) -> EdgeOutcome | None:
        eris, slot, budget = self.mechanism, self.state.slot, data.budget_remaining
        job, recorded, finish = data.job, data.answer, data.line
        if finish is None:
            return decide(eris, job, data.deadline_slot, slot, budget)
        if recorded.plan is not None:
            line = EdgeMenuLine(finish, recorded.payment, recorded.plan)
            return accept_line(eris, job, line, slot, budget)
        # The log has the price of a refused line, but not its plan.
        price = data.decision.price
        if price is None or budget is None or price <= budget:
            return None
        return over_budget(job, price, budget, finish)

    def _replanned(self, event: ZoneEvent) -> Body | None:
        job = self.state.jobs.get(event.job or "")
        if job is None:
            return None
        rate = event.body.get("chunks_per_worker_slot")
        plan = plan_remaining(self.mechanism, job, event.slot, rate)
        return None if plan is None else event.body | {"found": plan_record(plan)}

    rules: ClassVar[Mapping[str, Rule]] = {
        EdgeEventType.REPLANNED: _replanned,
        EventType.RESUMED: _replanned,
    }


@dataclass(frozen=True, slots=True)
class EdgeRangeOutcome:
    """Outcome of the bids of a range: the admitted jobs' values and payments."""

    num_jobs: int
    num_admitted: int
    welfare: float
    revenue: float


class EdgeReplay(ZoneReplay[EdgeRangeOutcome]):
    """Replay of an edge zone's log.

    Other mechanisms decide on the range's bids in an empty market that has all of the range's
    slots, and the zone's horizon after them.
    """

    basis = mechanism = "eris"
    rows = (
        ("bids", "num_jobs", ","),
        ("admitted", "num_admitted", ","),
        ("welfare", "welfare", ",.4f"),
        ("revenue", "revenue", ",.4f"),
    )

    def check(self, entry: Entry) -> None:
        _edge_entry(entry)

    def verifier(self) -> EdgeVerifier:
        return EdgeVerifier(self.log.opened)

    def recorded_outcome(self, progress: Progress) -> EdgeRangeOutcome:
        return _outcome([read_decision(body["answer"]) for body in self._decided])

    def outcome_under(self, entry: Entry, progress: Progress) -> EdgeRangeOutcome:
        progress(entry.label, None)
        jobs = [read_job(body["job"]) for body in self._decided]
        return _outcome(self._play(_edge_entry(entry), jobs))

    @cached_property
    def _decided(self) -> list[Body]:
        return [
            event.body
            for event in self.log.events()
            if event.type == EventType.DECIDED and self.log.contains(event)
        ]

    def _play(self, entry: EdgeEntry, jobs: Sequence[EdgeJob]) -> Sequence[EdgeDecision]:
        if not jobs:
            return []
        first = min(job.arrival for job in jobs)
        market, _ = read_supply(self.log.opened)
        slots = max(job.arrival for job in jobs) - first + market.slots
        cells = slots * len(market.sites) * max(1, len(market.types))
        if cells > MOST_CELLS:
            raise InputError("--from", f"{slots:,} slots are too many at once", "a later time")
        moved = [replace(job, arrival=job.arrival - first) for job in jobs]
        return entry.play(replace(market, slots=slots), moved)


def _edge_entry(entry: Entry) -> EdgeEntry:
    return EDGE_ENTRIES.build(entry.mechanism, entry.settings)


def _outcome(decisions: Sequence[EdgeDecision]) -> EdgeRangeOutcome:
    admitted = [one for one in decisions if one.admitted]
    return EdgeRangeOutcome(
        len(decisions),
        len(admitted),
        sum(one.utility or 0.0 for one in admitted),
        float(sum((one.payment for one in admitted), Money(0))),
    )
