"""Running sums over a simulation: money by the definition of costs, exactly added."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auctune.domain import Cell, Cluster, Decision, Money, Schedule, Task
from auctune.domain.money import ZERO
from auctune.sim.outages import Change


class Accounts:
    """The costs of schedules on one cluster.

    Args:
        cluster: the supply.
        energy_cost: money for a slot at full load by node type, one entry a slot, in place of what
            the cluster says; it may be below zero.
    """

    def __init__(
        self, cluster: Cluster, energy_cost: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self._types = cluster.node_types
        self._energy_cost = energy_cost or {
            name: kind.energy_cost for name, kind in cluster.node_types.items()
        }
        self._type_of = {node.id: node.type for node in cluster.nodes}

    def operating_cost(self, task: Task, schedule: Schedule) -> float:
        """Return what running the cells costs the operator, money: the sum of e_ikt over them."""
        return self.cells_cost(task, schedule.cells)

    def cells_cost(self, task: Task, cells: Iterable[Cell]) -> float:
        """Return the sum of e_ikt over any cells, money."""
        return math.fsum([self._cell_cost(task, slot, node) for slot, node in cells])

    def _cell_cost(self, task: Task, slot: int, node: str) -> float:
        name = self._type_of[node]
        if task.operating_cost is not None and name in task.operating_cost:
            return task.operating_cost[name][slot]
        return task.throughput[name] / self._types[name].compute * self._energy_cost[name][slot]


def vendor_price(task: Task, schedule: Schedule) -> Money:
    """Return what the schedule's vendor takes; 0 where no work is needed."""
    if schedule.vendor is None:
        return ZERO
    return next(quote.price for quote in task.quotes if quote.vendor == schedule.vendor)


# The running sums of a market: each decision is counted once and then forgotten.
#
# Sums of money are exact (Decimal), and sums of costs are rounded once, at the end: no figure
# depends on the order of what was added, nor on how it was cut into batches. The only list that
# grows is that of the seconds that decisions took, 8 bytes each, of which quantiles are wanted.


@dataclass(frozen=True, slots=True)
class OutageFigures:
    """What outages changed.

    Attributes:
        num_replanned: plans that were changed, once for each time.
        num_refunded: tasks among them that could not be finished.
        refunds: what those were given back, money.
        extra_operating_cost: what new plans cost beyond the ones they replaced, money; below zero
            where they cost less. The operator bears it.
    """

    num_replanned: int
    num_refunded: int
    refunds: float
    extra_operating_cost: float


class Tally:
    """What a market came to so far; money where nothing else is said.

    Args:
        cluster: the supply.
        real_energy_cost: money for a slot at full load by node type, where the instance says it.

    Attributes:
        bids: of admitted tasks that were not refunded.
        payments: of the same.
        vendor_cost: of all admitted tasks: a vendor is paid for its work.
        welfare_by_slot: [T] of the tasks that arrived in each slot, money.
        tasks_by_slot, admitted_by_slot: [T] how many arrived, and how many of them were admitted.
        compute, memory: [T] samples and GB sold by slot, over all nodes.
        seconds: that each decision took.
        outages: what they changed; None if none were played.
    """

    def __init__(
        self,
        cluster: Cluster,
        real_energy_cost: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.cluster = cluster
        self._accounts = Accounts(cluster)
        self._real = None if real_energy_cost is None else Accounts(cluster, real_energy_cost)
        self._type_of = {node.id: node.type for node in cluster.nodes}
        self.bids = self.payments = self.vendor_cost = ZERO
        self.outages: OutageFigures | None = None
        # Lists: single entries of an array are several times as slow to change.
        self.welfare_by_slot = [0.0] * cluster.slots
        self.tasks_by_slot, self.admitted_by_slot = [0] * cluster.slots, [0] * cluster.slots
        self.compute, self.memory = [0.0] * cluster.slots, [0.0] * cluster.slots
        self.seconds = array("d")
        self._operating, self._real_operating = ExactSum(), ExactSum()

    @property
    def welfare(self) -> float:
        return float(self.bids - self.vendor_cost) - self.operating_cost

    @property
    def operating_cost(self) -> float:
        """Operating cost of all cells that ran or will run."""
        return self._operating.value()

    @property
    def real_operating_cost(self) -> float | None:
        """The same at real energy costs; None where the instance has none."""
        return None if self._real is None else self._real_operating.value()

    def add(self, task: Task, decision: Decision, seconds: float) -> None:
        self.tasks_by_slot[task.arrival] += 1
        self.seconds.append(seconds)
        schedule = decision.schedule
        if schedule is None:
            return
        self.admitted_by_slot[task.arrival] += 1
        vendor = vendor_price(task, schedule)
        self.bids += task.bid
        self.payments += decision.payment
        self.vendor_cost += vendor
        cost = self._run(task, schedule.cells, 1)
        self.welfare_by_slot[task.arrival] += float(task.bid - vendor) - cost

    def change_all(self, changes: Sequence[Change]) -> None:
        """Count what outages changed in plans that were counted."""
        before = self.outages or OutageFigures(0, 0, 0.0, 0.0)
        refunded = [change for change in changes if change.refunded]
        refunds = sum((change.decision.payment for change in refunded), ZERO)
        extra = [self._change(change) for change in changes]
        self.payments -= refunds
        self.outages = OutageFigures(
            before.num_replanned + len(changes),
            before.num_refunded + len(refunded),
            float(refunds) + before.refunds,
            math.fsum(extra) + before.extra_operating_cost,
        )

    def _change(self, change: Change) -> float:
        """Count one; what it costs beyond the plan before, or None if refunded."""
        task = change.task
        extra = self._run(task, change.cells, 1) + self._run(task, change.before, -1)
        self.welfare_by_slot[task.arrival] -= extra
        if not change.refunded:
            return extra
        self.bids -= task.bid
        self.welfare_by_slot[task.arrival] -= float(task.bid)
        return 0.0

    def _run(self, task: Task, cells: Sequence[Cell], sign: int) -> float:
        """Count cells in, or out again; what they cost, in or out."""
        cost = sign * self._accounts.cells_cost(task, cells)
        self._operating.add(cost)
        if self._real is not None:
            self._real_operating.add(sign * self._real.cells_cost(task, cells))
        compute, memory, memory_gb = self.compute, self.memory, sign * task.memory_gb
        for slot, node in cells:
            compute[slot] += sign * task.throughput[self._type_of[node]]
            memory[slot] += memory_gb
        return cost


# A running sum that is rounded once, when it is asked for: math.fsum without the list.
#
# Kept as partial sums that do not overlap (Shewchuk, Discrete & Computational Geometry 18, 1997);
# there are few of them, however many terms were added.


class ExactSum:
    """The sum of all that was added, exactly; its value is the nearest float64."""

    def __init__(self) -> None:
        self._partials: list[float] = []

    def add(self, term: float) -> None:
        kept = 0
        partials = self._partials
        for partial in partials:
            larger, smaller = (term, partial) if abs(term) >= abs(partial) else (partial, term)
            term = larger + smaller
            rest = smaller - (term - larger)
            if rest:
                partials[kept] = rest
                kept += 1
        partials[kept:] = [term]

    def value(self) -> float:
        """Return the sum, rounded once."""
        return math.fsum(self._partials)
