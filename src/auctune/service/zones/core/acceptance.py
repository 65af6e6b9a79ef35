"""Accepting quotes: the request must match what was quoted."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from auctune.domain import InputError, Money, parse_money
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import Acceptance
from auctune.service.jobs.terms import has_deadline
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.core.clock import SlotClock

# Names of a job are not part of its quote.
_NAMES = ("suffix", "metadata")


def renamed_fields(accepted: Acceptance) -> dict[str, Any]:
    """Names that a job is given at last, in place of those of its quote."""
    return {name: value for name in _NAMES if (value := getattr(accepted, name)) is not None}


def ensure_matches_quote(accepted: Acceptance, quote: Quote, *free: str) -> None:
    """That what a request says again is what was quoted.

    Args:
        accepted: the request.
        quote: that it names.
        free: terms that need not be those of the quote.

    Raises:
        InputError: naming the first that is otherwise.
    """
    quoted, terms = quote.request, accepted.market
    whole = _explicit_fields(
        accepted, "hyperparameters", "method", "seed", "market", "integrations", *_NAMES
    )
    _compare("", whole, quoted)
    _compare("", {"seed": accepted.seed}, quote.training)
    _compare(
        "hyperparameters.",
        _explicit_fields(accepted.hyperparameters_used),
        quoted.hyperparameters_used,
    )
    _compare(
        "market.", _explicit_fields(terms, "lora", "zone", "quote", "line", *free), quoted.market
    )
    _compare("market.lora.", _explicit_fields(terms.lora), quoted.market.lora)
    if terms.zone not in (None, quote.zone):
        raise InputError("market.zone", f"{terms.zone!r}", f"{quote.zone!r}, as quoted, or none")


def _compare(place: str, given: dict[str, Any], quoted: object) -> None:
    for name, value in given.items():
        expected = getattr(quoted, name)
        if value is not None and value != expected:
            shown = "none" if expected is None else f"{expected!r}, as quoted, or none"
            raise InputError(f"{place}{name}", f"{value!r}", shown)


def _explicit_fields(model: BaseModel, *but: str) -> dict[str, Any]:
    """What a request says by itself."""
    return {name: getattr(model, name) for name in model.model_fields_set if name not in but}


# Accepting a line of a menu: the same job and plan at no more than the quoted price.
#
# A request names a quote and a line. What else it says must be what was quoted; what it leaves out
# is. A line is to be had as long as the first slot of its plan is still to come, what it takes is
# free, and that costs no more than it did.


class QuotedLine(Protocol):
    """A plan for a price."""

    @property
    def price(self) -> Money:
        """What is charged."""
        ...


L = TypeVar("L", bound=QuotedLine)


def resolve_line(accepted: Acceptance, quote: Quote, lines: Sequence[L]) -> L:
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
    ensure_matches_quote(accepted, quote, "bid")
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
