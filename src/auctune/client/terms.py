"""On what terms a job is asked for: money, time, risk."""

import re
from dataclasses import dataclass
from typing import Any

from auctune.domain.errors import InputError

_VALUE = re.compile(r"([^@]+)(?:@((?:(?!\.\.)[^@])*)(?:\.\.([^@]+))?)?")
_EXPECTED = "AMOUNT, AMOUNT@DEADLINE, or AMOUNT@DEADLINE..WORTHLESS, such as 40@+2h..+3h"


@dataclass(frozen=True, slots=True)
class Value:
    """What a job is worth by when.

    Attributes:
        amount: of money, if it is done by the deadline.
        deadline: a moment, or a span such as +2h; none: that of the terms.
        zero_at: likewise, from when on it is worth nothing; none: the service's choice.
    """

    amount: str
    deadline: str | None = None
    zero_at: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms; the service checks them.

    Attributes:
        model: the base.
        zone: where; none: the service's choice.
        bid: amount of money; none: a quote is asked for, or the value or the cap says it.
        deadline: a moment, or a span such as +2h; none: any, for a quote.
        what_if: whether nothing shall happen.
        value: what it is worth as it gets late; none: the bid says it.
        max_cost: the most that it may cost; none: the bid, or the value.
        target_loss: that it is trained to; none: to the end of its data.
        risk: of being late that is taken, where the service chooses the zone; none: its default.
    """

    model: str
    zone: str | None = None
    bid: str | None = None
    deadline: str | None = None
    what_if: bool = False
    value: Value | None = None
    max_cost: str | None = None
    target_loss: float | None = None
    risk: float | None = None


def read_value(text: str, option: str = "--value") -> Value:
    """A value as it is typed: what it is worth, by when, and when it is worth nothing.

    Raises:
        InputError: if it is none; amounts and moments are the service's to check.
    """
    found = _VALUE.fullmatch(text)
    if found is None:
        raise InputError(option, repr(text), _EXPECTED)
    amount, deadline, zero_at = found.groups()
    if deadline == "" and zero_at is None:
        raise InputError(option, repr(text), _EXPECTED)
    return Value(amount, deadline or None, zero_at)


def market_part(terms: Terms) -> dict[str, Any]:
    """What terms say in the market's part of a request, and nothing else."""
    value = terms.value
    if value is None:
        worth = None
    else:
        named = {"amount": value.amount, "deadline": value.deadline, "zero_at": value.zero_at}
        worth = {name: one for name, one in named.items() if one is not None}
    said: dict[str, Any] = {
        "zone": terms.zone,
        "bid": terms.bid,
        "deadline": terms.deadline,
        "value": worth,
        "max_cost": terms.max_cost,
        "target_loss": terms.target_loss,
        "risk": terms.risk,
        "what_if": terms.what_if or None,
    }
    return {name: one for name, one in said.items() if one is not None}
