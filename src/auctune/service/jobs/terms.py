"""What a request says of money and time, read; and what its owner reads again of it.

A request may say what a job is worth as a bid, or as a value that falls with lateness, and may cap
what it costs. Zones of all kinds read the same words: where one of them is missing, another one
that says as much stands for it.
"""

from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError, Money, parse_money
from auctune.service.accounts.keys import Principal
from auctune.service.jobs.request import JobRequest, MarketTerms, Request
from auctune.service.jobs.timestamps import parse_deadline
from auctune.service.zones.core.offers import NO_ALTERNATIVES, Alternatives

_AMOUNT = 'an amount of money, as text: "12.50"'


@dataclass(frozen=True, slots=True)
class JobValue:
    """What a job is worth, by when it is done.

    Attributes:
        amount: if it is done by the deadline; none: its owner does not say.
        deadline: unix time.
        zero_at: unix time from which on it is worth nothing; it falls in a straight line.
    """

    amount: Money | None
    deadline: float
    zero_at: float


def deadline_of(request: JobRequest, now: float) -> float:
    """Unix time of a request's deadline: `deadline`, or that of its value.

    Raises:
        InputError: if it has none, or none to come, or two, or is worth nothing before it.
    """
    deadline = _said_deadline(request.market, now)
    _said_zero(request.market, deadline, now)
    return deadline


def _said_deadline(terms: MarketTerms, now: float) -> float:
    if terms.value is not None and terms.value.deadline is not None:
        if terms.deadline is not None:
            found = "is given with market.deadline"
            raise InputError("market.value.deadline", found, "one of the two")
        return parse_deadline(terms.value.deadline, now, "market.value.deadline")
    if terms.deadline is None:
        raise InputError("market.deadline", "is missing", "a time, or a span such as +2h")
    return parse_deadline(terms.deadline, now)


def has_deadline(request: JobRequest) -> bool:
    """Whether a request says a deadline at all."""
    value = request.market.value
    return request.market.deadline is not None or (value is not None and value.deadline is not None)


def validate_amounts(request: JobRequest) -> None:
    """That what a request says of money is money.

    Raises:
        InputError: naming the first that is none.
    """
    _value_record(request.market)
    max_cost(request)


def bid_amount(request: JobRequest) -> Money:
    """The most that a request would pay for a job in time.

    That is its bid, or what the job is worth; but no more than its cap.

    Raises:
        InputError: if it says nothing of that, or no amount of money.
    """
    amount, cap = _value_record(request.market), max_cost(request)
    if amount is None:
        raise InputError("market.bid", "is missing", _AMOUNT)
    return amount if cap is None else min(amount, cap)


def max_cost(request: Request) -> Money | None:
    """The most that a request would pay, whatever the job comes to; none: it does not say.

    Raises:
        InputError: if that is no amount of money.
    """
    cap = request.market.max_cost
    return None if cap is None else parse_money(cap, "market.max_cost")


def required_cap(request: JobRequest) -> Money:
    """The most that may be charged for a metered job: its cap, or else its bid or its value.

    Raises:
        InputError: if it says none of them, or no amount of money.
    """
    cap = implied_cap(request)
    if cap is None:
        raise InputError("market.max_cost", "is missing", _AMOUNT)
    return cap


def implied_cap(request: JobRequest) -> Money | None:
    """The same; none where it says none of them."""
    cap = max_cost(request)
    return _value_record(request.market) if cap is None else cap


def value_of(request: JobRequest, now: float) -> JobValue:
    """What a job is worth by when; half as long again as its deadline is away it is worth nothing.

    Raises:
        InputError: if it has no deadline, or is worth nothing before it, or says what is none.
    """
    deadline = deadline_of(request, now)
    zero_at = _said_zero(request.market, deadline, now)
    if zero_at is None:
        zero_at = deadline + (deadline - now) / 2
    return JobValue(_value_record(request.market), deadline, zero_at)


def _said_zero(terms: MarketTerms, deadline: float, now: float) -> float | None:
    if terms.value is None or terms.value.zero_at is None:
        return None
    zero_at = parse_deadline(terms.value.zero_at, now, "market.value.zero_at")
    if zero_at < deadline:
        expected = "the deadline, or a time after it"
        raise InputError("market.value.zero_at", "is before the deadline", expected)
    return zero_at


def unsupported_field(request: JobRequest, *names: str) -> str | None:
    """The first of some terms that a request says, as errors name it; none: it says none."""
    said = (name for name in names if getattr(request.market, name) is not None)
    found = next(said, None)
    return None if found is None else f"market.{found}"


def reject_unsupported(request: JobRequest, zone: str, kind: str, *foreign: str) -> None:
    """Check that a request says nothing that a zone does not support.

    Args:
        request: for a job.
        zone, kind: whose name stands in the error.
        foreign: terms of other kinds of zones.

    Raises:
        InputError: naming the term.
    """
    found = unsupported_field(request, *foreign)
    if found is not None:
        expected = f"none: zone {zone} ({kind}) does not support it"
        raise InputError(found, "is given", expected)


def request_record(
    request: JobRequest,
    who: Principal,
    bid: Money | None,
    deadline: float,
    alternatives: Alternatives = NO_ALTERNATIVES,
) -> dict[str, Any]:
    """What an owner reads again of a request.

    Args:
        request: for a job.
        who: asked.
        bid: what it bids; none: nothing.
        deadline: unix time.
        alternatives: what zones said, where the market chose one: on record once and for all.
    """
    rate = request.hyperparameters_used.learning_rate_multiplier
    chosen_from = {"alternatives": [one.to_record() for one in alternatives]}
    return {
        "model": request.model,
        "training_file": request.training_file,
        "validation_file": request.validation_file,
        "learning_rate_multiplier": 1.0 if rate == "auto" else rate,
        "organization_id": who.team or who.user,
        "metadata": request.metadata,
        "suffix": request.suffix,
        "bid": None if bid is None else str(bid),
        "deadline": deadline,
        **(chosen_from if alternatives else {}),
    }


def _value_record(terms: MarketTerms) -> Money | None:
    if terms.bid is not None and terms.value is not None:
        raise InputError("market.value", "is given with market.bid", "one of the two")
    if terms.value is not None:
        return parse_money(terms.value.amount, "market.value.amount")
    return None if terms.bid is None else parse_money(terms.bid, "market.bid")
