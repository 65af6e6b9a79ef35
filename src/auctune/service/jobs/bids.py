"""From a request to the bid that a zone decides on."""

from collections.abc import Callable
from typing import Any, TypeVar

from auctune.domain import InputError, Money, parse_money
from auctune.service.access.key import Principal
from auctune.service.access.spending import Spending
from auctune.service.access.turns import Turns
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.time import parse_deadline
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.open_zone import Appraisal, OpenZone

T = TypeVar("T")


class Bids:
    """Makes bids, and lets those of one budget pass one after the other.

    Args:
        spending: against budgets.
        now: tells unix time.
        is_alone: whether there is one desk only, which takes bids in turn by itself.
    """

    def __init__(self, spending: Spending, now: Callable[[], float], *, is_alone: bool) -> None:
        self._spending = spending
        self._now = now
        self._is_alone = is_alone
        self._turns = Turns()

    def make(
        self,
        job: str,
        owner: str,
        training: Training,
        found: Appraisal,
        amount: Money,
        deadline: float,
        request: dict[str, Any],
    ) -> Bid:
        """A bid of an owner's, within its budget."""
        return Bid(
            job=job,
            owner=owner,
            training=training,
            size=found.size,
            bid=amount,
            deadline=deadline,
            offers=found.offers,
            request=request,
            left=lambda: self._spending.left(owner),
        )

    def deadline(self, request: JobRequest) -> float:
        """Unix time of a request's deadline.

        Raises:
            InputError: if it has none, or none to come.
        """
        text = request.market.deadline
        if text is None:
            raise InputError("market.deadline", "is missing", "a time, or a span such as +2h")
        return parse_deadline(text, self._now())

    async def in_turn(self, owner: str, zone: OpenZone, run: Callable[[AuctionZone], T]) -> T:
        """Desks decide side by side; what two of them take from one budget must not."""
        names = [one.key for one in self._spending.accounts(owner) if one.budget is not None]
        if not names or self._is_alone:
            return await zone.ask(run)
        async with self._turns.of(names):
            return await zone.ask(run)


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
    request: JobRequest, who: Principal, bid: Money, deadline: float
) -> dict[str, Any]:
    """What an owner reads again of a request."""
    rate = request.chosen.learning_rate_multiplier
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
    }
