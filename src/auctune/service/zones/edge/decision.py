"""Decisions of an edge zone: admission, accepted lines, plans for the rest of a job.

They change nothing, so that a replay decides with the same functions.
"""

from dataclasses import dataclass
from typing import Any

from auctune.domain import Money, Reason
from auctune.edge import EdgeDecision, EdgeJob, EdgeMenuLine, EdgePlan, Eris, first_violation
from auctune.service.zones.edge.job import EdgeJobState


@dataclass(frozen=True, slots=True)
class EdgeOutcome:
    """Decision on a bid or an accepted line.

    Attributes:
        decision: decision of the mechanism, or a rejection because of the budget.
        price: price of the plan, or of the cheapest plan by the deadline if the bid is rejected;
            None if there is no plan.
        earliest: slot by whose end the job could finish, if the deadline is too early, or None.
        budget_remaining: remaining budget of the owner, if the price exceeds it.
        line: finish of the accepted line; None for a bid.
    """

    decision: EdgeDecision
    price: Money | None = None
    earliest: int | None = None
    budget_remaining: Money | None = None
    line: int | None = None


def decide(eris: Eris, job: EdgeJob, last: int, slot: int, left: Money | None) -> EdgeOutcome:
    """Decide on a bid.

    Args:
        eris: the mechanism, which is not changed.
        job: the bid.
        last: the last slot that ends by its deadline.
        slot: the current slot.
        left: remaining budget of its owner; None: no limit.

    Raises:
        InputError: if the job does not fit the market.
    """
    found = eris.preview(job, slot)
    if found.plan is None:
        return _rejected(eris, found, job, last, slot)
    # The search checks its plans; what is booked is checked independently.
    broken = first_violation(job, found.plan, eris.ledger)
    assert broken is None, broken
    if left is not None and found.payment > left:
        return over_budget(job, found.payment, left)
    return EdgeOutcome(found, found.payment)


def accept_line(
    eris: Eris, job: EdgeJob, line: EdgeMenuLine, slot: int, left: Money | None
) -> EdgeOutcome | None:
    """Decide on a line of an earlier menu; return None if it is no longer available."""
    if left is not None and line.price > left:
        return over_budget(job, line.price, left, line.finish)
    found = eris.would_take(job, line, slot)
    return None if found is None else EdgeOutcome(found, line.price, line=line.finish)


def outcome_fields(found: EdgeOutcome) -> dict[str, Any]:
    """Return the fields of `EdgeDecided` that say what was decided."""
    decision = found.decision
    return {
        "decision": {
            "admitted": decision.admitted,
            "reason": decision.reason,
            "payment": str(decision.payment),
            "price": None if found.price is None else str(found.price),
            "value": decision.utility,
            "surplus": decision.surplus,
            "finish": decision.finish,
        },
        "answer": decision,
        "line": found.line,
        "earliest": found.earliest,
        "budget_remaining": found.budget_remaining,
    }


def plan_remaining(
    eris: Eris, job: EdgeJobState, slot: int, rate: float | None = None
) -> EdgePlan | None:
    """Return a plan for the chunks of a job that no planned slot trains, or None.

    Args:
        eris: the mechanism, which is not changed.
        job: the job.
        slot: the current slot.
        rate: chunks that a worker passes through once in a slot, or None: as it was sold.
    """
    if not job.chunks_left:
        return EdgePlan(())
    first = slot + 1
    return (
        eris.plan_rest(job.commitment(rate), first, job.deadline_slot)
        if first <= job.deadline_slot
        else None
    )


def over_budget(job: EdgeJob, price: Money, left: Money, line: int | None = None) -> EdgeOutcome:
    """Return the rejection of a job whose price exceeds the budget; see `EdgeOutcome`."""
    refused = EdgeDecision(job.id, admitted=False, reason=Reason.OVER_BUDGET)
    return EdgeOutcome(refused, price, budget_remaining=left, line=line)


def _rejected(eris: Eris, found: EdgeDecision, job: EdgeJob, last: int, slot: int) -> EdgeOutcome:
    """Add the cheapest price by the deadline, or else the earliest possible finish."""
    lines = eris.quote(job, slot).lines
    in_time = [line for line in lines if line.finish <= last]
    if in_time:
        return EdgeOutcome(found, in_time[-1].price)
    if found.reason is Reason.UNPROFITABLE:
        found = EdgeDecision(job.id, admitted=False, reason=Reason.NO_CAPACITY)
    return EdgeOutcome(found, earliest=lines[0].finish if lines else None)
