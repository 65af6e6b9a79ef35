"""Base class of the baselines, which sell without prices and charge the bid."""

from typing import Any

import numpy as np

from auctune.auction.baselines.earliest_finish import find_earliest
from auctune.auction.ledger import CapacityLedger
from auctune.auction.market_ops import CellMarket
from auctune.auction.plan import Plan, price_plan, read_plan
from auctune.domain import (
    Cell,
    Cluster,
    Decision,
    EnergyForecast,
    Event,
    MarketState,
    MenuLine,
    PricedPlan,
    PriceMenu,
    Quote,
    Schedule,
    Task,
)


class BidCharging(CellMarket):
    """The cells of a cluster, sold without prices.

    Args:
        cluster: the supply.
        energy: what slots to come will cost, for a market without an end.
        alone: never two tasks on one node in one slot.
    """

    def __init__(
        self, cluster: Cluster, *, energy: EnergyForecast | None = None, alone: bool = False
    ) -> None:
        super().__init__(CapacityLedger(cluster, prune=False, energy=energy))
        self._alone = alone

    def advance(self, now: int) -> tuple[Event, ...]:
        if self._is_current(now):
            return ()
        begun = self.entering(now)
        self._begin(begun)
        return (begun,)

    def preview(self, task: Task, now: int) -> Decision:
        """Return what `offer` would answer now; change nothing."""
        return self._copy().offer(task, now)

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Return an empty menu: the bid is charged, so there is no price to show."""
        return PriceMenu(task.id, ())

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        """Return None: there is no menu."""
        return None

    def find_plan(self, task: Task, now: int, *, with_room: bool = True) -> PricedPlan | None:
        found = [self._find_with(task, quote, now) for quote in task.quotes or (None,)]
        plans = [plan for plan in found if plan is not None]
        return min(plans, key=lambda plan: plan.schedule.finish, default=None)

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        plan = read_plan(self.ledger, task, schedule, now)
        return None if plan is None else self._priced(task, plan)

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        ledger = self.ledger
        first = ledger.row(max(now, rest.arrival))
        found = find_earliest(ledger, ledger.usage, rest, first, alone=self._alone)
        return None if found is None else ledger.cells(*found)

    def state(self) -> MarketState:
        """Return what is sold; there are no prices."""
        compute, memory = self.ledger.shares_used()
        first = self.ledger.horizon.first
        return MarketState(np.zeros_like(compute), np.zeros_like(memory), compute, memory, first)

    def _identity(self) -> dict[str, Any]:
        return {"mechanism": type(self).__name__, "alone": self._alone}

    def _find_with(self, task: Task, quote: Quote | None, now: int) -> PricedPlan | None:
        ledger = self.ledger
        first = ledger.row(max(now, task.arrival) + (0 if quote is None else quote.delay))
        found = find_earliest(ledger, ledger.usage, task, first, alone=self._alone)
        return None if found is None else self._priced(task, Plan(*found, quote))

    def _priced(self, task: Task, plan: Plan) -> PricedPlan:
        free = np.zeros_like(self.ledger.usage.compute)
        return price_plan(self.ledger, task, plan, free, free, at_dearest=False)
