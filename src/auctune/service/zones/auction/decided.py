"""What a decision leaves on record, with all that it was made of."""

from typing import Any

from auctune.domain import Decision, Reason, Task
from auctune.domain.menu import MenuLine
from auctune.run.records import decision_record, schedule_record
from auctune.service.jobs.idempotency import idempotency_record
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.records import task_record


def decided_body(bid: Bid, task: Task, decision: Decision, earliest: int | None) -> dict[str, Any]:
    """The body of a decision's event, but for the line of a menu that was taken.

    Args:
        bid, task: what was offered.
        decision: on it.
        earliest: slot, see `earliest_slot`.
    """
    is_over = decision.reason is Reason.OVER_BUDGET
    return {
        "owner": bid.owner,
        "request": bid.request,
        "training": bid.training.to_record(),
        "size": bid.size.to_record(),
        "task": task_record(task),
        "offers": {offer.vendor: offer.reference for offer in bid.offers if offer.reference},
        "decision": decision_record(decision),
        "reply": idempotency_record(bid.reply),
        "budget_left": str(task.budget) if is_over else None,
        "earliest": earliest,
    }


def line_record(line: MenuLine | None) -> dict[str, Any] | None:
    """The line of a menu that was accepted, if one was."""
    if line is None:
        return None
    return {"deadline": line.deadline, "schedule": schedule_record(line.schedule)}
