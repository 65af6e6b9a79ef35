"""The baselines that charge the bid: their base class, and cells by earliest finish."""

from typing import Any

import numpy as np

from auctune.auction.ledger import Capacity, CapacityLedger, Usage
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
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.jit import kernel

# The cells with which a task finishes as early as it can.
#
# In each slot the most productive cell with room is taken, until the work is done: no schedule
# ends earlier. Then cells that the work does not need are dropped, the least productive first and
# the earlier of equals, which leaves the finish as it is.


def find_earliest(
    ledger: CapacityLedger, usage: Usage, task: Task, first: int, *, alone: bool
) -> tuple[Ints, Ints] | None:
    """Return the cells with which a task finishes first, as rows and node indices.

    Args:
        ledger: the market.
        usage: what is sold of it, or of one like it.
        task: the task; its quotes do not count.
        first: the row from which it may run.
        alone: never two tasks on one node in one slot.
    """
    last = ledger.row(task.deadline)
    nodes = np.full(max(0, last + 1 - first), -1, dtype=np.int64)
    done = earliest_cells(
        ledger.capacity,
        usage,
        first,
        last,
        task.work,
        ledger.throughput(task),
        task.memory_gb,
        alone,
        nodes,
    )
    if not done:
        return None
    used = np.flatnonzero(nodes >= 0)
    return first + used, nodes[used]


@kernel
def earliest_cells(
    capacity: Capacity,
    usage: Usage,
    first: int,
    last: int,
    work: float,
    throughput: Floats,
    memory_gb: float,
    alone: bool,
    nodes: Ints,
) -> bool:
    """Choose a node for each slot first..last.

    Args:
        nodes: [last + 1 - first] filled with node indices; -1 where the task does not run.

    Returns:
        Whether the work gets done.
    """
    needed = work * (1.0 - FIT)
    done = 0.0
    for t in range(first, last + 1):
        most = 0.0
        for n in range(len(capacity.type_of)):
            k = capacity.type_of[n]
            s = throughput[k]
            if s <= most or (alone and usage.tasks[t, n] > 0):
                continue
            compute_fits = usage.compute[t, n] + s <= capacity.compute[k] * (1.0 + FIT)
            memory_fits = usage.memory[t, n] + memory_gb <= capacity.memory[k] * (1.0 + FIT)
            if compute_fits and memory_fits:
                most = s
                nodes[t - first] = n
        done += most
        if done >= needed:
            _drop_surplus(capacity, throughput, t - first, done - needed, nodes)
            return True
    return False


@kernel
def _drop_surplus(
    capacity: Capacity, throughput: Floats, finish: int, surplus: float, nodes: Ints
) -> None:
    while True:
        least, which = surplus, -1
        for i in range(finish):
            if nodes[i] >= 0:
                s = throughput[capacity.type_of[nodes[i]]]
                if s < least or (s == least and which < 0):
                    least, which = s, i
        if which < 0:
            return
        nodes[which] = -1
        surplus -= least


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
