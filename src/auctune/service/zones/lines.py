"""Accepting a line of a quote: the same job, the same plan, and no more than what was shown.

A request names a quote and a line. What else it says must be what was quoted; what it leaves out
is. A line is to be had as long as the first slot of its plan is still to come, what it takes is
free, and that costs no more than it did.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from auctune.domain import InputError, Money, parse_money
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance
from auctune.service.jobs.terms import has_deadline
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.as_quoted import check_same
from auctune.service.zones.clock import SlotClock


class Line(Protocol):
    """A plan for a price."""

    @property
    def price(self) -> Money:
        """What is charged."""
        ...


L = TypeVar("L", bound=Line)


def accepted_line(accepted: Acceptance, quote: Quote, lines: Sequence[L]) -> L:
    """The line of a quote that a request accepts.

    Args:
        accepted: the request.
        quote: that it names.
        lines: of the quote.

    Raises:
        InputError: if there is no such line, or the request says something else than the quote.
    """
    terms = accepted.market
    if terms.line is None or terms.line >= len(lines):
        found = "is missing" if terms.line is None else f"{terms.line}"
        most = len(lines) - 1
        expected = f"0 to {most}" if lines else "another quote: this one has no lines"
        raise InputError("market.line", found, expected)
    line = lines[terms.line]
    check_same(accepted, quote, "bid")
    if terms.bid is not None and parse_money(terms.bid, "market.bid") < line.price:
        expected = f"at least the line's price, {line.price}, or none"
        raise InputError("market.bid", f"{terms.bid}", expected)
    return line


def last_resort(quote: Quote, finish: float) -> float:
    """The deadline of an accepted line, unix time: its plan ends at its finish, and if a slot
    fails there is time until the deadline that was quoted for.

    Args:
        quote: that was accepted.
        finish: of the line, unix time.
    """
    return quote.deadline if has_deadline(quote.request) else finish


def why_changed(start: int, clock: SlotClock) -> str:
    """Why a line of a quote is not to be had any more.

    Args:
        start: the first slot of its plan.
        clock: of the zone.
    """
    if start <= clock.slot():
        began = to_rfc3339(clock.slot_start(start))
        return f"the first slot of this line's plan began at {began}"
    return "the plan of this line is taken, or costs more by now"
