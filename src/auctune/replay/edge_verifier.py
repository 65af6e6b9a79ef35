"""The log of an edge zone once more: each answer and each new plan against what Eris says now."""

from typing import Any

from auctune.domain import Money
from auctune.edge import EdgeMenuLine
from auctune.run.edge.plain import plan_record, read_decision, read_job
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.edge.decision import (
    EdgeOutcome,
    accept_line,
    answer_record,
    decide,
    over_budget,
    plan_remaining,
)
from auctune.service.zones.edge.job import EdgeEventType
from auctune.service.zones.edge.state import empty_model

Body = dict[str, Any]


class EdgeAgain:
    """A `Judge` of one zone's log.

    Args:
        opened: body of the event with which it opened.
    """

    def __init__(self, opened: Body) -> None:
        self._memory = empty_model(opened)

    def again(self, event: ZoneEvent) -> Body | None:
        """The body that an event must have had; none: it cannot have happened at all."""
        if event.kind == EventType.DECIDED:
            found = self._answer(event.body)
            return None if found is None else event.body | answer_record(found)
        if event.kind in (EdgeEventType.REPLANNED, EventType.RESUMED):
            job = self._memory.state.jobs.get(event.job or "")
            if job is None:
                return None
            plan = plan_remaining(self._memory.mechanism, job, event.slot)
            return None if plan is None else event.body | {"found": plan_record(plan)}
        return event.body

    def take(self, event: ZoneEvent) -> None:
        """Take over an event that can have happened."""
        self._memory.apply(event)

    def _answer(self, body: Body) -> EdgeOutcome | None:
        eris, slot = self._memory.mechanism, self._memory.state.slot
        job, left = read_job(body["job"]), body["budget_left"]
        before = read_decision(body["answer"])
        budget = None if left is None else Money(left)
        finish = body["line"]
        if finish is None:
            return decide(eris, job, body["last"], slot, budget)
        if before.plan is not None:
            line = EdgeMenuLine(finish, before.payment, before.plan)
            return accept_line(eris, job, line, slot, budget)
        # Of a line that was refused the price is on record, and not the plan.
        price = Money(body["decision"]["price"])
        if budget is None or price <= budget:
            return None
        return over_budget(job, price, budget, finish)
