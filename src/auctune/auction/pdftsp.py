"""pdFTSP: online primal-dual scheduling and pricing (Zheng et al., ICPP 2024, Algorithms 1 and 2).

For each task, in the order of arrival:
 find l* = argmin c(l) over all feasible schedules and vendors (c does not depend on the bid);
 admit it if the bid is above the price, and then book its cells and move their prices.

The paper's payment, capacity check, prices and search are mended as docs/explanation/auction.md
tells; each mend is an option.
"""

from collections.abc import Sequence

from auctune.auction.book import Book, Ints
from auctune.auction.params import PdftspParams
from auctune.auction.pricing import ExponentialPricing, LearnedPricing, PaperPricing, Pricing
from auctune.auction.replan import plan_anew
from auctune.auction.search import Found, ScheduleSearch
from auctune.auction.search.problem import Request
from auctune.domain import (
    Cell,
    Cluster,
    Commitment,
    Decision,
    EnergyForecast,
    Event,
    InputError,
    MarketState,
    MenuLine,
    Money,
    NodeLost,
    NodeReturned,
    Offered,
    PriceMenu,
    Reason,
    Released,
    Replanned,
    SlotAdvanced,
    Task,
    round_money,
)
from auctune.domain.money import LARGEST


class Pdftsp:
    """The multi-LoRA auction over one cluster.

    Args:
        cluster: the supply.
        params: the options; with `pricing: paper`, alpha and beta must be set.
        energy: what slots to come will cost, for a market without an end: the cluster is then
            its first window, and a task's own operating costs are those of the slots from its
            arrival on.
        history: bids of earlier days, for `pricing: learned`.
    """

    by_slot = False

    def __init__(
        self,
        cluster: Cluster,
        params: PdftspParams | None = None,
        *,
        energy: EnergyForecast | None = None,
        history: Sequence[Sequence[Task]] = (),
    ) -> None:
        self.params = params or PdftspParams()
        self.book = Book(cluster, prune=self.params.pricing != "paper", energy=energy)
        self._now = -1
        self.pricing = _make_pricing(self.book, self.params, history)
        self._search = ScheduleSearch(
            self.book,
            self.pricing.lam,
            self.pricing.phi,
            aggregate=self.params.chosen_aggregate,
            masked=self.params.capacity == "masked",
        )

    def advance(self, now: int) -> None:
        """Slot `now` begins, or goes on: prices take over what earlier bids taught."""
        if now > self._now:
            self._begin(self.entering(now))
        else:
            self.pricing.within()

    def entering(self, now: int) -> SlotAdvanced:
        """What the beginning of slot `now` would bring into the market."""
        return self.book.entering(now)

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and book what was promised.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        self.advance(now)
        self.book.check(task)
        request = self._search.request(task, now)
        found = self._search.find(request, task)
        decision = self._decide(task, request, found)
        self.pricing.saw(task)
        return decision

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        """Decide on all bids of one slot, one after the other."""
        return [self.offer(task, now) for task in tasks]

    def quote(self, task: Task, now: int) -> PriceMenu:
        """The price of each finish time up to the task's deadline; changes nothing.

        Each line is what `offer` would charge now if that were the task's deadline.

        Raises:
            InputError: as `offer`.
        """
        if now > self._now:
            self.advance(now)
        self.book.check(task)
        lines: list[MenuLine] = []
        request = self._search.request(task, now)
        for deadline in range(request.first, request.last + 1):
            found = self._search.find(request._replace(last=deadline), task)
            if found is None or not self._has_room(found, request):
                continue
            schedule = self._search.schedule(found)
            price = self._payment(found, _to_price(found.cost))
            if not lines or price < lines[-1].price:
                lines.append(MenuLine(schedule.finish, price, schedule))
        return PriceMenu(task.id, tuple(lines))

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Take cells that an admitted task no longer needs back into the market."""
        slots, nodes = self.book.indices(cells)
        self.book.give_back(slots, nodes, self.book.throughput(task), task.memory_gb)
        self.pricing.booked(slots, nodes)

    def assign(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Give cells to a task that has paid for others; only their use moves prices."""
        slots, nodes = self.book.indices(cells)
        self.book.take(slots, nodes, self.book.throughput(task), task.memory_gb)
        self.pricing.booked(slots, nodes)

    def lose_node(self, node: str, now: int, running: Sequence[Commitment]) -> list[Replanned]:
        """Take a node off the market and plan anew what it was to run, at the least cost.

        The cost of a new plan is that of the search, prices of cells with room included, so that
        it takes what others want least. Its owner does not pay it.
        """
        self.apply(NodeLost(node, now))
        return plan_anew(self, node, now, running)

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """The least-cost cells with room for a task from slot `now` on, if there are any."""
        found = self._search.find(self._search.request(rest, now), rest, masked=True)
        return None if found is None else self.book.cells(found.slots, found.nodes)

    def state(self) -> MarketState:
        """What is sold and at which prices, now."""
        rows, first = self.book.horizon.rows, self.book.horizon.first
        lam, phi = self.pricing.lam[rows].copy(), self.pricing.phi[rows].copy()
        return MarketState(lam, phi, *self.book.shares_used(), first_slot=first)

    def apply(self, event: Event) -> None:
        """Take over what happened, on replay, without deciding again."""
        match event:
            case Offered():
                self._apply_offer(event)
            case Released():
                self.release(event.task, event.cells)
            case SlotAdvanced():
                self._begin(event)
            case NodeLost():
                self.advance(event.now)
                self.pricing.booked(*self.book.lose(event.node, event.now))
            case NodeReturned():
                self.advance(event.now)
                self.pricing.booked(*self.book.restore(event.node, event.now))
            case Replanned():
                self.release(event.task, event.given_up)
                self.assign(event.task, event.found)

    def _begin(self, event: SlotAdvanced) -> None:
        shift = self.book.advance(event)
        if shift is not None:
            self.pricing.moved(shift)
        self._now = event.now
        self.pricing.start(event.now)

    def _apply_offer(self, event: Offered) -> None:
        task, decision = event.task, event.decision
        self.advance(event.now)
        request = self._search.request(task, event.now)
        if decision.schedule is not None:
            assert decision.value is not None
            slots, nodes = self.book.indices(decision.schedule.cells)
            self._book(request, slots, nodes, decision.value)
        elif decision.reason is Reason.NO_CAPACITY and self.params.capacity == "checked":
            # Prices rose for a choice that was not granted, and that no record holds; not where
            # lost nodes had left no choice.
            found = self._search.find(request, task)
            if found is not None:
                self.pricing.chose(found.slots, found.nodes, request, _value(task, found))
        self.pricing.saw(task)

    def _decide(self, task: Task, request: Request, found: Found | None) -> Decision:
        if found is None:
            feasible = self._search.could_ever_run(request)
            reason = Reason.NO_CAPACITY if feasible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        price = _to_price(found.cost)
        if not self._profitable(task, found, price):
            return Decision(task.id, admitted=False, price=price, reason=Reason.UNPROFITABLE)
        value = _value(task, found)
        if not self._has_room(found, request):
            self.pricing.chose(found.slots, found.nodes, request, value)
            return Decision(task.id, admitted=False, reason=Reason.NO_CAPACITY)
        self._book(request, found.slots, found.nodes, value)
        return Decision(
            task.id,
            admitted=True,
            payment=self._payment(found, price),
            price=price,
            schedule=self._search.schedule(found),
            value=value,
            surplus=float(task.bid) - found.cost,
        )

    def _profitable(self, task: Task, found: Found, price: Money) -> bool:
        if self.params.payment == "critical":
            return task.bid > price
        return float(task.bid) > found.cost

    def _payment(self, found: Found, price: Money) -> Money:
        if self.params.payment == "critical":
            return price
        return _to_price(found.cost - found.operating_cost)

    def _has_room(self, found: Found, request: Request) -> bool:
        if self.params.capacity == "masked":
            return True
        return self.book.has_room(found.slots, found.nodes, request.throughput, request.memory_gb)

    def _book(self, request: Request, slots: Ints, nodes: Ints, value: float) -> None:
        self.pricing.chose(slots, nodes, request, value)
        self.book.take(slots, nodes, request.throughput, request.memory_gb)
        self.pricing.booked(slots, nodes)


def _to_price(cost: float) -> Money:
    """A cost as a price; what is beyond the largest amount is above all bids in any case."""
    return round_money(min(cost, float(LARGEST)))


def _value(task: Task, found: Found) -> float:
    vendor = 0.0 if found.quote is None else float(found.quote.price)
    return float(task.bid) - vendor - found.operating_cost


def _make_pricing(book: Book, params: PdftspParams, history: Sequence[Sequence[Task]]) -> Pricing:
    if params.pricing == "learned":
        return LearnedPricing(book, history)
    if params.pricing == "paper":
        if params.alpha is None or params.beta is None:
            raise InputError("alpha", "is not set", "alpha and beta, for pricing paper")
        return PaperPricing(book, params.alpha, params.beta)
    return ExponentialPricing(
        book,
        _range(params.compute_low, params.compute_high),
        _range(params.memory_low, params.memory_high),
    )


def _range(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
