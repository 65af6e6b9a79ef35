"""Decisions of an edge zone: admission, accepted lines, plans for the rest of a job.

Nothing is changed: live and when a log is gone through again it is the same question.
"""

from dataclasses import dataclass
from typing import Any

from auctune.domain import Money, Reason
from auctune.edge import EdgeDecision, EdgeJob, EdgeMenuLine, EdgePlan, Eris, first_violation
from auctune.run.edge.plain import decision_record
from auctune.service.zones.edge.job import EdgeJobState


@dataclass(frozen=True, slots=True)
class EdgeOutcome:
    """To one bid.

    Attributes:
        decision: of the mechanism, or that the price is over the budget.
        price: of the plan; of a rejected bid the least by its deadline; none: there is none.
        earliest: slot by whose end a job could be done that was too late; none: it was not.
        budget_left: of its owner, where the price is over it.
        line: finish of the line that was accepted; none: it is a bid.
    """

    decision: EdgeDecision
    price: Money | None = None
    earliest: int | None = None
    budget_left: Money | None = None
    line: int | None = None


def decide(eris: Eris, job: EdgeJob, last: int, slot: int, left: Money | None) -> EdgeOutcome:
    """What a bid is answered.

    Args:
        eris: as it stands.
        job: the bid.
        last: its last slot in time.
        slot: the current one.
        left: of its owner's budget; none: any amount.

    Raises:
        InputError: if the job does not fit the market.
    """
    found = eris.preview(job, slot)
    if found.plan is None:
        return _rejected(eris, found, job, last, slot)
    # The search checks what it finds; what is booked is checked by itself.
    broken = first_violation(job, found.plan, eris.ledger)
    assert broken is None, broken
    if left is not None and found.payment > left:
        return over_budget(job, found.payment, left)
    return EdgeOutcome(found, found.payment)


def accept_line(
    eris: Eris, job: EdgeJob, line: EdgeMenuLine, slot: int, left: Money | None
) -> EdgeOutcome | None:
    """What is answered to who accepts a line of an earlier menu; none if it is not to be had."""
    if left is not None and line.price > left:
        return over_budget(job, line.price, left, line.finish)
    found = eris.would_take(job, line, slot)
    return None if found is None else EdgeOutcome(found, line.price, line=line.finish)


def answer_record(found: EdgeOutcome) -> dict[str, Any]:
    """As plain values: what of a decision's event it makes."""
    decision, left = found.decision, found.budget_left
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
        "answer": decision_record(decision),
        "line": found.line,
        "earliest": found.earliest,
        "budget_left": None if left is None else str(left),
    }


def plan_remaining(eris: Eris, job: EdgeJobState, slot: int) -> EdgePlan | None:
    """A plan for the data of a job that no slot of its plan trains; none if there is none."""
    if not job.chunks_left:
        return EdgePlan(())
    first = slot + 1
    return (
        eris.plan_rest(job.commitment(), first, job.deadline_slot)
        if first <= job.deadline_slot
        else None
    )


def over_budget(job: EdgeJob, price: Money, left: Money, line: int | None = None) -> EdgeOutcome:
    """To one whose price is above what is left; `line` is as of `EdgeOutcome`."""
    refused = EdgeDecision(job.id, admitted=False, reason=Reason.OVER_BUDGET)
    return EdgeOutcome(refused, price, budget_left=left, line=line)


def _rejected(eris: Eris, found: EdgeDecision, job: EdgeJob, last: int, slot: int) -> EdgeOutcome:
    """With the least price by the deadline; or, where there is none, when there would be."""
    lines = eris.quote(job, slot).lines
    in_time = [line for line in lines if line.finish <= last]
    if in_time:
        return EdgeOutcome(found, in_time[-1].price)
    if found.reason is Reason.UNPROFITABLE:
        found = EdgeDecision(job.id, admitted=False, reason=Reason.NO_CAPACITY)
    return EdgeOutcome(found, earliest=lines[0].finish if lines else None)
