"""Where prices are fixed: what readers see of them, and what is booked when a job is over."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from auctune.domain import Money, Reason
from auctune.domain.money import least_above
from auctune.service.ledger import Entry, recognize_revenue, refund
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.job_row import JobRow


def least_bid(decision: Mapping[str, Any] | None) -> str | None:
    """The least bid that would have been admitted; none where no bid would, or it was."""
    if decision is None or decision["reason"] != Reason.UNPROFITABLE or decision["price"] is None:
        return None
    least = least_above(Decimal(decision["price"]))
    return None if least is None else str(least)


def why_rejected(body: Mapping[str, Any], words: Mapping[Reason, str]) -> str:
    """The reason for people.

    Args:
        body: of a rejection's event.
        words: of the kind, for each reason.
    """
    decision, left = body["decision"], body.get("budget_left")
    if left is not None:
        return f"the price, {decision['price']}, is above what is left of the budget, {left}"
    return words[Reason(decision["reason"])]


def rejected_for(body: Mapping[str, Any]) -> str:
    """The term that stood against it: the deadline where there was no room, else the bid."""
    is_late = body["decision"]["reason"] in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)
    return "market.deadline" if is_late else "market.bid"


def told(body: Mapping[str, Any], words: Callable[[Mapping[str, Any]], str]) -> str:
    """A decision, as it is told to the job's owner.

    Args:
        body: of its event.
        words: why it was rejected, of the same.
    """
    decision = body["decision"]
    if decision["admitted"]:
        return f"Admitted for {decision['payment']}"
    least = least_bid(decision)
    why = f"Rejected ({decision['reason']}): {words(body)}"
    return why + (f"; {least} would do" if least else "")


def told_replanned(body: Mapping[str, Any]) -> str:
    """A new plan, as it is told to the job's owner."""
    return f"Planned anew, at the price that was agreed: {body['why']}"


def price_part(row: JobRow, clock: SlotClock) -> dict[str, Any]:
    """What is of such kinds in the market's part of a job: the price, and what would have done."""
    body = row.body
    decision, earliest, left = body["decision"], body.get("earliest"), body.get("budget_left")
    admitted = decision is not None and decision["admitted"]
    return {
        "payment": decision["payment"] if admitted else None,
        "least_bid": least_bid(decision),
        "price": None if left is None else decision["price"],
        "budget_left": left,
        "earliest_deadline": None if earliest is None else clock.slot_end(earliest),
    }


def end(owner: str, payment: Money, *, refunded: bool) -> tuple[Entry, ...]:
    """What the ledger says of a job that is over: its price is earned, or given back."""
    return refund(owner, payment) if refunded else recognize_revenue(payment)
