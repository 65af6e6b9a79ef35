"""What an auction with prices of cells answers beside bids: menus, accepted lines, priced plans."""

from collections.abc import Sequence
from dataclasses import replace

from auctune.auction.ledger import CapacityLedger
from auctune.auction.market_ops import CellMarket
from auctune.auction.params import PdftspParams
from auctune.auction.plan import Plan, price_plan, read_plan
from auctune.auction.pricing import BidEvidence, LearnedParams, make_pricing
from auctune.auction.search import ScheduleSearch
from auctune.auction.search.problem import Request
from auctune.domain import (
    Cell,
    Decision,
    InputError,
    MenuLine,
    Money,
    PricedPlan,
    PriceMenu,
    Schedule,
    Task,
    round_money,
)
from auctune.domain.money import LARGEST
from auctune.numerics.arrays import Ints

# Bids of this long ago still count when a bid's weight is compared with that of others.
_RECENT_SECONDS = 6 * 3600


class PricedMarket(CellMarket):
    """The cells of one cluster, their prices, and the search for the least-cost schedule.

    Args:
        ledger: the cells.
        params: how schedules are priced and searched, and what is charged.
        history: bids of earlier days, for `pricing: learned`.
        learned: its constants; None: the defaults.
    """

    def __init__(
        self,
        ledger: CapacityLedger,
        params: PdftspParams,
        history: Sequence[Sequence[Task]],
        learned: LearnedParams | None = None,
    ) -> None:
        super().__init__(ledger)
        self.params = params
        self.pricing = make_pricing(ledger, params, history, learned)
        self._evidence = BidEvidence(max(1, round(_RECENT_SECONDS / ledger.cluster.slot_seconds)))
        self._is_critical = params.payment == "critical"
        self._is_masked = params.capacity == "masked"
        self._search = ScheduleSearch(
            ledger,
            self.pricing.lam,
            self.pricing.phi,
            aggregate=params.chosen_aggregate,
            masked=self._is_masked,
            exact=params.search == "exact",
        )

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Return the price of each finish time up to the task's deadline; change nothing.

        Each line is what `offer` would charge now if that were the task's deadline.

        Raises:
            InputError: as `offer`.
        """
        self.ledger.check(task, now)
        market = self._at(now)
        lines: list[MenuLine] = []
        request = market._search.request(task, now)
        for deadline in range(request.first, request.last + 1):
            best = market._search.find(request._replace(last=deadline), task)
            if best is None:
                continue
            if not self._is_masked and not market._has_room(best.slots, best.nodes, request):
                continue
            price = self._payment(best.cost, best.operating_cost)
            if not lines or price < lines[-1].price:
                schedule = market._search.schedule(best)
                lines.append(MenuLine(schedule.finish, price, schedule))
        return PriceMenu(task.id, tuple(lines))

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        """Accept a line of an earlier menu, if its plan is still available at its price.

        If it is not, nothing changes.

        Raises:
            InputError: as `offer`, or if the bid is below the line's price.
        """
        if task.bid < line.price:
            raise InputError("bid", f"{task.bid}", f"at least the line's price, {line.price}")
        self.ledger.check(task, now)
        market = self._at(now)
        plan = read_plan(market.ledger, task, line.schedule, now)
        request = market._search.request(task, now)
        if plan is None or not market._has_room(plan.rows, plan.nodes, request):
            return None
        priced = market._priced(task, plan)
        if self._payment(priced.cost, priced.operating_cost) > line.price:
            return None
        value = float(task.bid) - priced.vendor_price - priced.operating_cost
        decision = Decision(
            task.id,
            admitted=True,
            payment=line.price,
            price=priced.price,
            schedule=line.schedule,
            value=value,
            surplus=float(task.bid) - priced.cost,
        )
        self.advance(now)
        self.pricing.on_selection(plan.rows, plan.nodes, request, value)
        self._allocate(plan.rows, plan.nodes, request)
        self._learn_from(task, decision, now)
        return decision

    def find_plan(self, task: Task, now: int, *, with_room: bool = False) -> PricedPlan | None:
        found = self._search.find(self._search.request(task, now), task, masked=with_room)
        if found is None:
            return None
        return self._priced(task, Plan(found.slots, found.nodes, found.quote))

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        market = self._at(now)
        plan = read_plan(market.ledger, task, schedule, now)
        return None if plan is None else market._priced(task, plan)

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """Return the least-cost cells with room for a task from slot `now` on, if there are any.

        The cost is that of the search, prices included: it takes what others value least.
        """
        found = self._search.find(self._search.request(rest, now), rest, masked=True)
        return None if found is None else self.ledger.cells(found.slots, found.nodes)

    def _priced(self, task: Task, plan: Plan) -> PricedPlan:
        lam, phi = self.pricing.lam, self.pricing.phi
        at_dearest = self.params.chosen_aggregate == "max"
        priced = price_plan(self.ledger, task, plan, lam, phi, at_dearest=at_dearest)
        return replace(priced, price=to_price(priced.cost))

    def _payment(self, cost: float, operating_cost: float) -> Money:
        return to_price(cost if self._is_critical else cost - operating_cost)

    def _has_room(self, rows: Ints, nodes: Ints, request: Request) -> bool:
        return self.ledger.has_room(rows, nodes, request.throughput, request.memory_gb)

    def _allocate(self, rows: Ints, nodes: Ints, request: Request) -> None:
        self.ledger.allocate(rows, nodes, request.throughput, request.memory_gb)
        self._on_allocation(rows, nodes)

    def _on_allocation(self, rows: Ints, nodes: Ints) -> None:
        self.pricing.on_allocation(rows, nodes)

    def _learn_from(self, task: Task, decision: Decision, now: int) -> None:
        evidence = self._evidence.record(task, decision, now)
        if evidence is not None:
            self.pricing.on_bid(evidence)


def to_price(cost: float) -> Money:
    """Return a cost as a price; what is beyond the largest amount is above all bids in any case."""
    return round_money(min(cost, float(LARGEST)))
