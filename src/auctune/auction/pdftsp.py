"""pdFTSP: online primal-dual scheduling and pricing (Zheng et al., ICPP 2024, Algorithm 1).

For each task i, in the order of arrival, with c(l) the cost of schedule l at the prices so far:
 l* = argmin c(l) over its feasible schedules and vendors   (line 5; c does not depend on b_i)
 if b_i > c(l*):                                            (line 6)
   raise the prices of the cells of l*                      (line 7; eqs. 7 and 8)
   if they have room: allocate them and charge c(l*)        (lines 8 to 11)

The paper's payment, capacity check, prices and search are mended, as docs/explanation/auction.md
explains; each mend is an option.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from auctune.auction.horizon import Shift
from auctune.auction.ledger import CapacityLedger
from auctune.auction.menu import PricedMarket, to_price
from auctune.auction.params import PdftspParams
from auctune.auction.pricing import LearnedParams
from auctune.auction.search import BestSchedule
from auctune.auction.search.problem import Request
from auctune.domain import (
    Cluster,
    Decision,
    EnergyForecast,
    Event,
    MarketState,
    Offered,
    PricesLearned,
    Reason,
    Saved,
    SlotAdvanced,
    Task,
)


class Pdftsp(PricedMarket):
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
        params = params or PdftspParams()
        ledger = CapacityLedger(cluster, prune=params.pricing != "paper", energy=energy)
        # Line 1: prices begin at 0, or at what is known of demand.
        super().__init__(ledger, params, history, learned)
        # The latest slot at whose beginning prices were updated.
        self._last_update = -1

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and allocate what was promised (Algorithm 1, lines 2 to 13).

        A slot that begins here returns no events, and a log of offers alone learns them again. Its
        energy costs are then those that the forecast has on replay: call `advance` first where
        they may differ.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        self.ledger.check(task, now)
        self.advance(now)
        request = self._search.request(task, now)
        # Lines 3 to 5: the task has its vendors' quotes, and Algorithm 2 chooses among them too.
        best = self._search.find(request, task)
        decision = self._decide(task, request, best)
        # Line 6: F(l*) > 0.
        if best is not None and decision.reason is not Reason.UNPROFITABLE:
            # Line 7, eqs. 7 and 8: they move the paper's prices, with room or not.
            self.pricing.on_selection(best.slots, best.nodes, request, _value(task, best))
            # Line 8: enough resources.
            if decision.admitted:
                # Lines 9 to 11. Prices that follow use move here.
                self._allocate(best.slots, best.nodes, request)
        self._learn_from(task, decision, now)
        return decision

    def preview(self, task: Task, now: int) -> Decision:
        """Return what `offer` would answer now; change nothing.

        Raises:
            InputError: as `offer`.
        """
        self.ledger.check(task, now)
        market = self._at(now)
        request = market._search.request(task, now)
        return market._decide(task, request, market._search.find(request, task))

    def _decide(self, task: Task, request: Request, best: BestSchedule | None) -> Decision:
        if best is None:
            feasible = self._search.could_ever_run(request)
            reason = Reason.NO_CAPACITY if feasible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        price = to_price(best.cost)
        is_profitable = task.bid > price if self._is_critical else float(task.bid) > best.cost
        if not is_profitable:
            return Decision(task.id, admitted=False, price=price, reason=Reason.UNPROFITABLE)
        if not self._is_masked and not self._has_room(best.slots, best.nodes, request):
            return Decision(task.id, admitted=False, reason=Reason.NO_CAPACITY)
        return Decision(
            task.id,
            admitted=True,
            payment=self._payment(best.cost, best.operating_cost),
            price=price,
            schedule=self._search.schedule(best),
            value=_value(task, best),
            surplus=float(task.bid) - best.cost,
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

    def state(self) -> MarketState:
        """Return what is sold and at which prices, now."""
        rows, first = self.ledger.horizon.rows, self.ledger.horizon.first
        lam, phi = self.pricing.lam[rows].copy(), self.pricing.phi[rows].copy()
        return MarketState(lam, phi, *self.ledger.shares_used(), first_slot=first)

    def apply(self, event: Event) -> None:
        if isinstance(event, PricesLearned):
            self.pricing.apply_update(event.now, event.update)
            self._last_update = event.now
            return
        super().apply(event)
        if isinstance(event, SlotAdvanced):
            # If its beginning moved prices, that is the next event.
            self._last_update = max(self._last_update, event.now)

    def save(self) -> Saved:
        return {
            **super().save(),
            "last_update": self._last_update,
            "pricing": self.pricing.save(),
            "evidence": self._evidence.save(),
        }

    def _load(self, saved: Saved) -> None:
        super()._load(saved)
        self.pricing.load(saved["pricing"])
        self._evidence.load(saved["evidence"])
        self._last_update = saved["last_update"]

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

    def _apply_offer(self, event: Offered) -> None:
        task, decision = event.task, event.decision
        request = self._search.request(task, event.now)
        if decision.schedule is not None:
            assert decision.value is not None
            rows, nodes = self.ledger.indices(decision.schedule.cells)
            self.pricing.on_selection(rows, nodes, request, decision.value)
            self._allocate(rows, nodes, request)
        elif decision.reason is Reason.NO_CAPACITY and not self._is_masked:
            # Prices rose for a choice that was not granted, and that no record holds; not where
            # lost nodes had left no choice.
            self.ledger.check(task, event.now)
            best = self._search.find(request, task)
            if best is not None:
                self.pricing.on_selection(best.slots, best.nodes, request, _value(task, best))
        self._learn_from(task, decision, event.now)


def _value(task: Task, best: BestSchedule) -> float:
    """Return the bid less the vendor's price and the operating cost (b_il)."""
    vendor = 0.0 if best.quote is None else float(best.quote.price)
    return float(task.bid) - vendor - best.operating_cost
