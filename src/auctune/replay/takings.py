"""What a recorded period came to, or would have come to: its plans and its money."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from auctune.domain import (
    Cell,
    Cluster,
    Commitment,
    Decision,
    Released,
    Schedule,
    SlotAdvanced,
    Task,
)
from auctune.domain.money import ZERO, Money
from auctune.domain.recorded import PlanChanged
from auctune.sim.accounts import vendor_price


@dataclass(frozen=True, slots=True)
class Takings:
    """What a period came to; money where nothing else is said.

    Attributes:
        num_bids, num_admitted, num_refunded: of its bids.
        welfare: bids less vendors' prices and operating costs, over those that were not refunded;
            what a refunded or cancelled task has cost counts.
        revenue: payments that were kept.
        vendor_cost: vendors' prices.
        operating_cost: of all cells that its bids ran in, or will.
        compute_used: share of all nodes' compute that was sold in the period's slots, to earlier
            bids as well.
    """

    num_bids: int
    num_admitted: int
    num_refunded: int
    welfare: float
    revenue: Money
    vendor_cost: Money
    operating_cost: float
    compute_used: float


@dataclass(frozen=True, slots=True)
class Sold:
    """A plan as it stands.

    Attributes:
        task, schedule: as they were sold.
        payment: that was agreed.
        cells: that it has, those that have passed included.
        is_counted: whether its bid was made within the period.
        is_refunded: whether its money went back.
    """

    task: Task
    schedule: Schedule
    payment: Money
    cells: tuple[Cell, ...]
    is_counted: bool
    is_refunded: bool = False


class Books:
    """Plans and money of a period.

    Args:
        cluster: the supply.
        first_slot: of the period.
    """

    def __init__(self, cluster: Cluster, first_slot: int) -> None:
        self._types = {node.id: node.type for node in cluster.nodes}
        self._cluster = cluster
        self._energy: dict[str, dict[int, float]] = {
            name: dict(enumerate(kind.energy_cost)) for name, kind in cluster.node_types.items()
        }
        self._first_slot = self._last_slot = first_slot
        self.plans: dict[str, Sold] = {}
        self._num_bids = 0

    def begin(self, event: SlotAdvanced) -> None:
        """A slot began, and costs of others came into sight."""
        self._last_slot = max(self._last_slot, event.now)
        for name, costs in event.energy_cost.items():
            last = event.now + self._cluster.slots
            self._energy[name].update(zip(range(last - len(costs), last), costs, strict=True))

    def admit(self, task: Task, decision: Decision, *, is_counted: bool) -> None:
        """A decision."""
        self._num_bids += is_counted
        schedule = decision.schedule
        if schedule is not None:
            sold = Sold(task, schedule, decision.payment, schedule.cells, is_counted)
            self.plans[task.id] = sold

    def change(self, changed: PlanChanged) -> None:
        """A plan, as the record says."""
        event = changed.event
        if event is None or changed.task not in self.plans:
            return
        if isinstance(event, Released):
            self.replan(changed.task, event.cells, ())
        else:
            self.replan(changed.task, event.given_up, event.found)

    def replan(self, name: str, given_up: Iterable[Cell], found: tuple[Cell, ...]) -> None:
        """Cells go and come."""
        plan, gone = self.plans[name], set(given_up)
        kept = tuple(cell for cell in plan.cells if cell not in gone)
        self.plans[name] = replace(plan, cells=tuple(sorted((*kept, *found))))

    def cancel(self, name: str, now: int) -> tuple[Task, tuple[Cell, ...]]:
        """An owner gives up what is to come."""
        plan = self.plans[name]
        left = tuple(cell for cell in plan.cells if cell.slot > now)
        self.replan(name, left, ())
        return plan.task, left

    def refund(self, name: str) -> None:
        """Its money goes back."""
        if name in self.plans:
            self.plans[name] = replace(self.plans[name], is_refunded=True)

    def running(self, now: int) -> list[Commitment]:
        """Plans that go on."""
        return [
            Commitment(
                plan.task,
                Schedule(plan.cells, plan.schedule.vendor),
                self._left(plan.task, plan.cells, now),
            )
            for plan in self.plans.values()
            if not plan.is_refunded and any(cell.slot >= now for cell in plan.cells)
        ]

    def takings(self) -> Takings:
        """All of it."""
        counted = [plan for plan in self.plans.values() if plan.is_counted]
        kept = [plan for plan in counted if not plan.is_refunded]
        vendors = sum((vendor_price(plan.task, plan.schedule) for plan in counted), ZERO)
        costs = math.fsum(self._cost(plan.task, cell) for plan in counted for cell in plan.cells)
        bids = sum((plan.task.bid for plan in kept), ZERO)
        return Takings(
            num_bids=self._num_bids,
            num_admitted=len(counted),
            num_refunded=len(counted) - len(kept),
            welfare=float(bids - vendors) - costs,
            revenue=sum((plan.payment for plan in kept), ZERO),
            vendor_cost=vendors,
            operating_cost=costs,
            compute_used=self._compute_used(),
        )

    def _compute_used(self) -> float:
        kinds = self._cluster.node_types
        slots = range(self._first_slot, self._last_slot + 1)
        all_nodes = math.fsum(kinds[node.type].compute for node in self._cluster.nodes)
        sold = math.fsum(
            plan.task.throughput[self._types[cell.node]]
            for plan in self.plans.values()
            for cell in plan.cells
            if cell.slot in slots
        )
        return sold / (all_nodes * len(slots))

    def _left(self, task: Task, cells: Iterable[Cell], now: int) -> float:
        done = sum(task.throughput[self._types[c.node]] for c in cells if c.slot < now)
        return max(0.0, task.work - done)

    def _cost(self, task: Task, cell: Cell) -> float:
        kind = self._types[cell.node]
        share = task.throughput[kind] / self._cluster.node_types[kind].compute
        return share * self._energy[kind].get(cell.slot, 0.0)
