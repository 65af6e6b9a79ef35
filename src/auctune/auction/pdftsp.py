"""pdFTSP: online primal-dual scheduling and pricing (Zheng et al., ICPP 2024, Algorithms 1 and 2).

For each task, in the order of arrival:
 find l* = argmin c(l) over all feasible schedules and vendors (c does not depend on the bid);
 admit it if the bid is above the price, and then book its cells and move their prices.

The paper's payment, capacity check, prices and search are mended as docs/explanation/auction.md
tells; each mend is an option.
"""

from collections.abc import Sequence
from dataclasses import asdict

from auctune.auction.book import Book, Ints
from auctune.auction.copies import copy_of
from auctune.auction.explain import explain
from auctune.auction.params import PdftspParams
from auctune.auction.plan import read_plan
from auctune.auction.pricing import BidEvidence, make_pricing
from auctune.auction.replan import plan_anew
from auctune.auction.search.problem import Request
from auctune.auction.terms import Terms, value_of
from auctune.domain import (
    Cell,
    Cluster,
    Commitment,
    Decision,
    EnergyForecast,
    Event,
    Explanation,
    InputError,
    MarketState,
    MenuLine,
    NodeLost,
    NodeReturned,
    Offered,
    PricedPlan,
    PriceMenu,
    PricesLearned,
    Reason,
    Released,
    Replanned,
    Saved,
    Schedule,
    SlotAdvanced,
    Task,
)

# Bids of so long ago still count when a bid's weight is compared with that of others.
_LATE_SECONDS = 6 * 3600


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
        # The latest slot that has begun, and the latest that has brought its lesson.
        self._now = self._taught = -1
        self.pricing = make_pricing(self.book, self.params, history)
        self._evidence = BidEvidence(max(1, round(_LATE_SECONDS / cluster.slot_seconds)))
        self._terms = Terms(self.book, self.pricing, self.params)

    def advance(self, now: int) -> tuple[Event, ...]:
        """Slot `now` begins, or goes on: prices take over what earlier bids taught."""
        if now <= self._taught:
            lesson = self.pricing.within()
            return () if lesson is None else (PricesLearned(now, lesson),)
        events: list[Event] = []
        if now > self._now:
            events.append(self.entering(now))
            self.apply(events[-1])
        lesson = self.pricing.start(now)
        self._taught = now
        if lesson is not None:
            events.append(PricesLearned(now, lesson))
        return tuple(events)

    def entering(self, now: int) -> SlotAdvanced:
        """What the beginning of slot `now` would bring into the market."""
        return self.book.entering(now)

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and book what was promised.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        self.advance(now)
        request, found, decision = self._terms.answer(task, now)
        if decision.value is not None:
            assert found is not None
            self._book(request, found.slots, found.nodes, decision.value)
        elif found is not None and decision.reason is Reason.NO_CAPACITY:
            self.pricing.chose(found.slots, found.nodes, request, value_of(task, found))
        self._learn_from(task, decision, now)
        return decision

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        """Decide on all bids of one slot, one after the other."""
        return [self.offer(task, now) for task in tasks]

    def preview(self, task: Task, now: int) -> Decision:
        """What `offer` would answer now; changes nothing.

        Raises:
            InputError: as `offer`.
        """
        return self._begun(now)._terms.answer(task, now).decision

    def quote(self, task: Task, now: int) -> PriceMenu:
        """The price of each finish time up to the task's deadline; changes nothing.

        Each line is what `offer` would charge now if that were the task's deadline.

        Raises:
            InputError: as `offer`.
        """
        return self._begun(now)._terms.menu(task, now)

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        """Accept a line of an earlier menu, if its plan is still to be had at its price.

        Raises:
            InputError: as `offer`, or if the bid is below the line's price.
        """
        if task.bid < line.price:
            raise InputError("bid", f"{task.bid}", f"at least the line's price, {line.price}")
        self.advance(now)
        self.book.check(task)
        plan = read_plan(self.book, task, line.schedule, now)
        request = self._terms.request(task, now)
        if plan is None or not self.book.has_room(
            plan.rows, plan.nodes, request.throughput, request.memory_gb
        ):
            return None
        priced = self._terms.priced(task, plan)
        if self._terms.payment(priced.cost, priced.operating_cost) > line.price:
            return None
        value = float(task.bid) - priced.vendor_price - priced.operating_cost
        self._book(request, plan.rows, plan.nodes, value)
        decision = Decision(
            task.id,
            admitted=True,
            payment=line.price,
            price=priced.price,
            schedule=line.schedule,
            value=value,
            surplus=float(task.bid) - priced.cost,
        )
        self._learn_from(task, decision, now)
        return decision

    def explain(self, task: Task, chosen: Decision | Schedule, now: int) -> Explanation:
        """What a plan costs part by part, and what others would have cost; changes nothing.

        Raises:
            InputError: as `offer`, or if the plan is not one of the task's.
        """
        market = self._begun(now)
        market.book.check(task)
        return explain(market._terms, task, chosen, now)

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
        return self._terms.rest(rest, now)

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        """What a plan costs now, with room in it or not; none if the task could not run by it."""
        return self._begun(now)._terms.price_plan(task, schedule, now)

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
                # What its beginning taught, if anything, is the next event.
                self._taught = max(self._taught, event.now)
            case PricesLearned():
                self.pricing.learned(event.now, event.lesson)
                self._taught = event.now
            case NodeLost():
                self._begin(self.entering(event.now))
                self.pricing.booked(*self.book.lose(event.node, event.now))
            case NodeReturned():
                self._begin(self.entering(event.now))
                self.pricing.booked(*self.book.restore(event.node, event.now))
            case Replanned():
                self.release(event.task, event.given_up)
                self.assign(event.task, event.found)

    def save(self) -> Saved:
        """All that it remembers."""
        return {
            "mechanism": "pdftsp",
            "params": asdict(self.params),
            "now": self._now,
            "taught": self._taught,
            "book": self.book.save(),
            "pricing": self.pricing.save(),
            "evidence": self._evidence.save(),
        }

    def load(self, saved: Saved) -> None:
        """Take over what one with the same cluster and options saved.

        Raises:
            InputError: if it was built otherwise.
        """
        if saved.get("mechanism") != "pdftsp" or saved["params"] != asdict(self.params):
            raise InputError("snapshot", "is of another mechanism", f"pdftsp with {self.params}")
        self.book.load(saved["book"])
        self.pricing.load(saved["pricing"])
        self._evidence.load(saved["evidence"])
        self._now, self._taught = saved["now"], saved["taught"]

    def _begun(self, now: int) -> "Pdftsp":
        """The market with slot `now` begun and all learned: a copy, if that is still to come."""
        if now <= self._taught and not self.pricing.is_due():
            return self
        later = copy_of(self)
        later.advance(now)
        return later

    def _begin(self, event: SlotAdvanced) -> None:
        if event.now <= self._now:
            return
        shift = self.book.advance(event)
        if shift is not None:
            self.pricing.moved(shift)
        self._now = event.now
        self.pricing.begin(event.now)

    def _apply_offer(self, event: Offered) -> None:
        task, decision = event.task, event.decision
        self._begin(self.entering(event.now))
        self._taught = event.now
        if decision.schedule is not None:
            assert decision.value is not None
            slots, nodes = self.book.indices(decision.schedule.cells)
            self._book(self._terms.request(task, event.now), slots, nodes, decision.value)
        elif decision.reason is Reason.NO_CAPACITY and self.params.capacity == "checked":
            # Prices rose for a choice that was not granted, and that no record holds; not where
            # lost nodes had left no choice.
            request, found, _ = self._terms.answer(task, event.now)
            if found is not None:
                self.pricing.chose(found.slots, found.nodes, request, value_of(task, found))
        self._learn_from(task, decision, event.now)

    def _learn_from(self, task: Task, decision: Decision, now: int) -> None:
        counted = self._evidence.counted(task, decision, now)
        if counted is not None:
            self.pricing.saw(counted)

    def _book(self, request: Request, slots: Ints, nodes: Ints, value: float) -> None:
        self.pricing.chose(slots, nodes, request, value)
        self.book.take(slots, nodes, request.throughput, request.memory_gb)
        self.pricing.booked(slots, nodes)
