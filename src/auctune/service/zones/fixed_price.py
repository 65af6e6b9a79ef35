"""How a rejection is told where prices are fixed: by the reason, the least bid, or the budget."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from auctune.domain import Reason
from auctune.domain.money import least_above

Shown = dict[str, Any]


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


def rejection(body: Mapping[str, Any], words: Mapping[Reason, str]) -> Shown:
    """The same as an error of the API: code, message and param."""
    is_late = body["decision"]["reason"] in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)
    param = "market.deadline" if is_late else "market.bid"
    return {"code": "bid_rejected", "message": why_rejected(body, words), "param": param}
