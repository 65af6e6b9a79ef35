"""pdFTSP: online primal-dual scheduling and pricing (Zheng et al., ICPP 2024, Algorithms 1 and 2).

For each task, in the order of arrival:
 find l* = argmin c(l) over all feasible schedules and vendors (c does not depend on the bid);
 admit it if the bid is above the price, and then allocate its cells and move their prices.

The paper's payment, capacity check, prices and search are mended, as docs/explanation/auction.md
explains; each mend is an option.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from auctune.auction.horizon import Shift
from auctune.auction.ledger import CapacityLedger
from auctune.auction.market_ops import CellMarket
from auctune.auction.params import PdftspParams
from auctune.auction.plan import Plan, price_plan, read_plan
from auctune.auction.pricing import BidEvidence, LearnedParams, make_pricing
from auctune.auction.search import BestSchedule, ScheduleSearch
from auctune.auction.search.problem import Request
from auctune.domain import (
    Cell,
    Cluster,
    Decision,
    EnergyForecast,
    Event,
    InputError,
    MarketState,
    MenuLine,
    Money,
    Offered,
    PricedPlan,
    PriceMenu,
    PricesLearned,
    Reason,
    Saved,
    Schedule,
    SlotAdvanced,
    Task,
    round_money,
)
from auctune.domain.money import LARGEST
from auctune.numerics.arrays import Ints

# Bids of this long ago still count when a bid's weight is compared with that of others.
_RECENT_SECONDS = 6 * 3600


class Pdftsp(CellMarket):
    """The multi-LoRA auction over one cluster.

    Args:
        cluster: the supply.
        params: the options; with `pricing: paper`, alpha and beta must be set.
        energy: what slots to come will cost, for a market without an end: the cluster is then
            its first window, and a task's own operating costs are those of the slots from its
            arrival on.
        history: bids of earlier days, for `pricing: learned`.
        learned: its constants.
    """

    def __init__(
        self,
        cluster: Cluster,
        params: PdftspParams | None = None,
        *,
        energy: EnergyForecast | None = None,
        history: Sequence[Sequence[Task]] = (),
        learned: LearnedParams | None = None,
    ) -> None:
        self.params = params = params or PdftspParams()
        super().__init__(CapacityLedger(cluster, prune=params.pricing != "paper", energy=energy))
        # The latest slot at whose beginning prices were updated.
        self._last_update = -1
        self.pricing = make_pricing(self.book, params, history, learned)
        self._evidence = BidEvidence(max(1, round(_RECENT_SECONDS / cluster.slot_seconds)))
        self._is_critical = params.payment == "critical"
        self._is_masked = params.capacity == "masked"
        self._search = ScheduleSearch(
            self.book,
            self.pricing.lam,
            self.pricing.phi,
            aggregate=params.chosen_aggregate,
            masked=self._is_masked,
            exact=params.search == "exact",
        )

    def advance(self, now: int) -> tuple[Event, ...]:
        if now <= self._last_update:
            update = self.pricing.update_within_slot()
            return () if update is None else (PricesLearned(now, update),)
        events: list[Event] = []
        if now > self._now:
            events.append(self.entering(now))
            self.apply(events[-1])
        update = self.pricing.update(now)
        self._last_update = now
        if update is not None:
            events.append(PricesLearned(now, update))
        return tuple(events)

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and allocate what was promised (Algorithm 1).

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        self.book.check(task, now)
        self.advance(now)
        request = self._search.request(task, now)
        best = self._search.find(request, task)
        decision = self._decide(task, request, best)
        if decision.value is not None:
            assert best is not None
            self._allocate(request, best.slots, best.nodes, decision.value)
        elif best is not None and decision.reason is Reason.NO_CAPACITY:
            self.pricing.on_selection(best.slots, best.nodes, request, _value(task, best))
        self._learn_from(task, decision, now)
        return decision

    def preview(self, task: Task, now: int) -> Decision:
        """Return what `offer` would answer now; change nothing.

        Raises:
            InputError: as `offer`.
        """
        self.book.check(task, now)
        market = self._at(now)
        request = market._search.request(task, now)
        return market._decide(task, request, market._search.find(request, task))

    def _decide(self, task: Task, request: Request, best: BestSchedule | None) -> Decision:
        if best is None:
            feasible = self._search.could_ever_run(request)
            reason = Reason.NO_CAPACITY if feasible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        price = _to_price(best.cost)
        is_profitable = task.bid > price if self._is_critical else float(task.bid) > best.cost
        if not is_profitable:
            return Decision(task.id, admitted=False, price=price, reason=Reason.UNPROFITABLE)
        if not self._has_room(best, request):
            return Decision(task.id, admitted=False, reason=Reason.NO_CAPACITY)
        return Decision(
            task.id,
            admitted=True,
            payment=price if self._is_critical else self._payment(best.cost, best.operating_cost),
            price=price,
            schedule=self._search.schedule(best),
            value=_value(task, best),
            surplus=float(task.bid) - best.cost,
        )

    def _allocate(self, request: Request, rows: Ints, nodes: Ints, value: float) -> None:
        self.pricing.on_selection(rows, nodes, request, value)
        self.book.allocate(rows, nodes, request.throughput, request.memory_gb)
        self.pricing.on_allocation(rows, nodes)

    def _has_room(self, plan: BestSchedule, request: Request) -> bool:
        return self._is_masked or self.book.has_room(
            plan.slots, plan.nodes, request.throughput, request.memory_gb
        )

    def _payment(self, cost: float, operating_cost: float) -> Money:
        return _to_price(cost if self._is_critical else cost - operating_cost)

    def _learn_from(self, task: Task, decision: Decision, now: int) -> None:
        counted = self._evidence.counted(task, decision, now)
        if counted is not None:
            self.pricing.on_bid(counted)

    # Menus, and plans that were not searched for.

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Return the price of each finish time up to the task's deadline; change nothing.

        Each line is what `offer` would charge now if that were the task's deadline.

        Raises:
            InputError: as `offer`.
        """
        self.book.check(task, now)
        market = self._at(now)
        lines: list[MenuLine] = []
        request = market._search.request(task, now)
        for deadline in range(request.first, request.last + 1):
            best = market._search.find(request._replace(last=deadline), task)
            if best is None or not market._has_room(best, request):
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
        self.book.check(task, now)
        market = self._at(now)
        plan = read_plan(market.book, task, line.schedule, now)
        request = market._search.request(task, now)
        if plan is None or not market.book.has_room(
            plan.rows, plan.nodes, request.throughput, request.memory_gb
        ):
            return None
        priced = market._priced(task, plan)
        if self._payment(priced.cost, priced.operating_cost) > line.price:
            return None
        self.advance(now)
        value = float(task.bid) - priced.vendor_price - priced.operating_cost
        self._allocate(request, plan.rows, plan.nodes, value)
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

    def find_plan(self, task: Task, now: int, *, with_room: bool = False) -> PricedPlan | None:
        found = self._search.find(self._search.request(task, now), task, masked=with_room)
        if found is None:
            return None
        return self._priced(task, Plan(found.slots, found.nodes, found.quote))

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        market = self._at(now)
        plan = read_plan(market.book, task, schedule, now)
        return None if plan is None else market._priced(task, plan)

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """Return the least-cost cells with room for a task from slot `now` on, if there are any.

        The cost is that of the search, prices included: it takes what others value least.
        """
        found = self._search.find(self._search.request(rest, now), rest, masked=True)
        return None if found is None else self.book.cells(found.slots, found.nodes)

    def _priced(self, task: Task, plan: Plan) -> PricedPlan:
        lam, phi = self.pricing.lam, self.pricing.phi
        at_dearest = self.params.chosen_aggregate == "max"
        priced = price_plan(self.book, task, plan, lam, phi, at_dearest=at_dearest)
        return replace(priced, price=_to_price(priced.cost))

    # State: the market as operators see it, replay, snapshots.

    def state(self) -> MarketState:
        """Return what is sold and at which prices, now."""
        rows, first = self.book.horizon.rows, self.book.horizon.first
        lam, phi = self.pricing.lam[rows].copy(), self.pricing.phi[rows].copy()
        return MarketState(lam, phi, *self.book.shares_used(), first_slot=first)

    def apply(self, event: Event) -> None:
        if isinstance(event, PricesLearned):
            self.pricing.apply_update(event.now, event.lesson)
            self._last_update = event.now
            return
        super().apply(event)
        if isinstance(event, SlotAdvanced):
            # If its beginning moved prices, that is the next event.
            self._last_update = max(self._last_update, event.now)

    def save(self) -> Saved:
        return {
            **super().save(),
            "taught": self._last_update,
            "pricing": self.pricing.save(),
            "evidence": self._evidence.save(),
        }

    def _load(self, saved: Saved) -> None:
        super()._load(saved)
        self.pricing.load(saved["pricing"])
        self._evidence.load(saved["evidence"])
        self._last_update = saved["taught"]

    def _identity(self) -> dict[str, Any]:
        params = asdict(self.params)
        # Snapshots taken before there was a choice do not name it.
        if params["search"] == "exact":
            del params["search"]
        return {"mechanism": "pdftsp", "params": params}

    def _is_current(self, now: int) -> bool:
        return now <= self._last_update and not self.pricing.needs_update()

    def _on_slot(self, shift: Shift | None) -> None:
        if shift is not None:
            self.pricing.on_window_shift(shift)
        self.pricing.begin_slot(self._now)

    def _on_allocation(self, rows: Ints, nodes: Ints) -> None:
        self.pricing.on_allocation(rows, nodes)

    def _apply_offer(self, event: Offered) -> None:
        task, decision = event.task, event.decision
        request = self._search.request(task, event.now)
        if decision.schedule is not None:
            assert decision.value is not None
            rows, nodes = self.book.indices(decision.schedule.cells)
            self._allocate(request, rows, nodes, decision.value)
        elif decision.reason is Reason.NO_CAPACITY and not self._is_masked:
            # Prices rose for a choice that was not granted, and that no record holds; not where
            # lost nodes had left no choice.
            self.book.check(task, event.now)
            best = self._search.find(request, task)
            if best is not None:
                self.pricing.on_selection(best.slots, best.nodes, request, _value(task, best))
        self._learn_from(task, decision, event.now)


def _value(task: Task, best: BestSchedule) -> float:
    """Return the bid less the vendor's price and the operating cost (b_il)."""
    vendor = 0.0 if best.quote is None else float(best.quote.price)
    return float(task.bid) - vendor - best.operating_cost


def _to_price(cost: float) -> Money:
    """Return a cost as a price; what is beyond the largest amount is above all bids in any case."""
    return round_money(min(cost, float(LARGEST)))
