"""What a request says of money and time, read; and what its owner reads again of it."""

from typing import Any

from auctune.domain import InputError, Money, parse_money
from auctune.service.access.key import Principal
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.time import parse_deadline
from auctune.service.zones.offer import NO_CHOICE, Alternatives


def asked_deadline(request: JobRequest, now: float) -> float:
    """Unix time of a request's deadline.

    Raises:
        InputError: if it has none, or none to come.
    """
    text = request.market.deadline
    if text is None:
        raise InputError("market.deadline", "is missing", "a time, or a span such as +2h")
    return parse_deadline(text, now)


def bid_amount(request: JobRequest) -> Money:
    """What a request bids.

    Raises:
        InputError: if that is nothing, or no amount of money.
    """
    bid = request.market.bid
    if bid is None:
        raise InputError("market.bid", "is missing", 'an amount of money, as text: "12.50"')
    return parse_money(bid, "market.bid")


def shown_request(
    request: JobRequest,
    who: Principal,
    bid: Money,
    deadline: float,
    alternatives: Alternatives = NO_CHOICE,
) -> dict[str, Any]:
    """What an owner reads again of a request.

    Args:
        request: for a job.
        who: asked.
        bid: what it bids.
        deadline: unix time.
        alternatives: what zones said, where the market chose one: on record once and for all.
    """
    rate = request.chosen.learning_rate_multiplier
    chosen_from = {"alternatives": [one.to_record() for one in alternatives]}
    return {
        "model": request.model,
        "training_file": request.training_file,
        "validation_file": request.validation_file,
        "learning_rate_multiplier": 1.0 if rate == "auto" else rate,
        "organization_id": who.team or who.user,
        "metadata": request.metadata,
        "suffix": request.suffix,
        "bid": str(bid),
        "deadline": deadline,
        **(chosen_from if alternatives else {}),
    }
