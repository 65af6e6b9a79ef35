"""The terms on which tasks could run in a market as it stands: decisions, menus, prices of plans.

Nothing here changes anything. Price and plan come first, and only then is the bid looked at.
"""

from dataclasses import replace
from typing import NamedTuple

from auctune.auction.book import Book
from auctune.auction.params import PdftspParams
from auctune.auction.plan import Plan, price_plan, read_plan
from auctune.auction.pricing import Pricing
from auctune.auction.search import Found, ScheduleSearch
from auctune.auction.search.problem import Request
from auctune.domain import (
    Cell,
    Decision,
    MenuLine,
    Money,
    PricedPlan,
    PriceMenu,
    Reason,
    Schedule,
    Task,
    round_money,
)
from auctune.domain.money import LARGEST


class Answer(NamedTuple):
    """A decision that is not booked, and what it rests on."""

    request: Request
    found: Found | None
    decision: Decision


class Terms:
    """What the auction would answer.

    Args:
        book: the cells.
        pricing: their prices.
        params: the options.
    """

    def __init__(self, book: Book, pricing: Pricing, params: PdftspParams) -> None:
        self.book = book
        self._pricing = pricing
        self._is_critical = params.payment == "critical"
        self._is_masked = params.capacity == "masked"
        self._at_dearest = params.chosen_aggregate == "max"
        self._search = ScheduleSearch(
            book,
            pricing.lam,
            pricing.phi,
            aggregate=params.chosen_aggregate,
            masked=self._is_masked,
        )

    def answer(self, task: Task, now: int) -> Answer:
        """The decision on one bid.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        self.book.check(task)
        request = self._search.request(task, now)
        found = self._search.find(request, task)
        return Answer(request, found, self._decide(task, request, found))

    def menu(self, task: Task, now: int) -> PriceMenu:
        """The price of each finish time up to the task's deadline.

        Raises:
            InputError: as `answer`.
        """
        self.book.check(task)
        lines: list[MenuLine] = []
        request = self._search.request(task, now)
        for deadline in range(request.first, request.last + 1):
            found = self._search.find(request._replace(last=deadline), task)
            if found is None or not self._has_room(found, request):
                continue
            schedule = self._search.schedule(found)
            price = self.payment(found.cost, found.operating_cost)
            if not lines or price < lines[-1].price:
                lines.append(MenuLine(schedule.finish, price, schedule))
        return PriceMenu(task.id, tuple(lines))

    def find_plan(self, task: Task, now: int, *, with_room: bool = False) -> PricedPlan | None:
        """The plan of least cost, if there is one; with room whatever `capacity` says."""
        found = self._search.find(self._search.request(task, now), task, masked=with_room)
        if found is None:
            return None
        return self.priced(task, Plan(found.slots, found.nodes, found.quote))

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        """What a plan costs, with room in it or not; none if the task could not run by it."""
        plan = read_plan(self.book, task, schedule, now)
        return None if plan is None else self.priced(task, plan)

    def priced(self, task: Task, plan: Plan) -> PricedPlan:
        """What a plan costs."""
        pricing = self._pricing
        priced = price_plan(
            self.book, task, plan, pricing.lam, pricing.phi, at_dearest=self._at_dearest
        )
        return replace(priced, price=_to_price(priced.cost))

    def payment(self, cost: float, operating_cost: float) -> Money:
        """What is charged for a plan of this cost."""
        return _to_price(cost if self._is_critical else cost - operating_cost)

    def request(self, task: Task, now: int) -> Request:
        """The task as the kernels read it."""
        return self._search.request(task, now)

    def rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """The least-cost cells with room, if there are any."""
        found = self._search.find(self._search.request(rest, now), rest, masked=True)
        return None if found is None else self.book.cells(found.slots, found.nodes)

    def _decide(self, task: Task, request: Request, found: Found | None) -> Decision:
        if found is None:
            feasible = self._search.could_ever_run(request)
            reason = Reason.NO_CAPACITY if feasible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        price = _to_price(found.cost)
        if not self._is_profitable(task, found, price):
            return Decision(task.id, admitted=False, price=price, reason=Reason.UNPROFITABLE)
        if not self._has_room(found, request):
            return Decision(task.id, admitted=False, reason=Reason.NO_CAPACITY)
        return Decision(
            task.id,
            admitted=True,
            payment=price if self._is_critical else self.payment(found.cost, found.operating_cost),
            price=price,
            schedule=self._search.schedule(found),
            value=value_of(task, found),
            surplus=float(task.bid) - found.cost,
        )

    def _is_profitable(self, task: Task, found: Found, price: Money) -> bool:
        return task.bid > price if self._is_critical else float(task.bid) > found.cost

    def _has_room(self, found: Found, request: Request) -> bool:
        return self._is_masked or self.book.has_room(
            found.slots, found.nodes, request.throughput, request.memory_gb
        )


def value_of(task: Task, found: Found) -> float:
    """Bid less vendor's price and operating cost (b_il)."""
    vendor = 0.0 if found.quote is None else float(found.quote.price)
    return float(task.bid) - vendor - found.operating_cost


def _to_price(cost: float) -> Money:
    """A cost as a price; what is beyond the largest amount is above all bids in any case."""
    return round_money(min(cost, float(LARGEST)))
