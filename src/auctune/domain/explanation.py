"""Why a bid got its answer: what its plan costs, part by part, and what others would have cost.

The price of a plan is
 cost = vendor + operating + compute + memory + traffic
added in this order, with operating the sum over its cells, and compute and memory either sums over
its cells at each one's own prices, or all its samples and GB-slots at the dearest of these prices:
then a cell's share is what its own samples and memory come to at the dearest prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from auctune.domain.decision import Schedule
from auctune.domain.money import Money, least_above


@dataclass(frozen=True, slots=True)
class PricedCell:
    """One cell of a plan; money is not rounded.

    Attributes:
        slot, node: which.
        compute_price: the cell's own, money per sample.
        memory_price: the cell's own, money per GB-slot.
        compute: money for the task's samples in it, at the prices that its plan pays.
        memory: money for the task's memory in it, likewise.
        operating_cost: money that running the task in it costs.
        traffic: money for what crosses sites for it.
    """

    slot: int
    node: str
    compute_price: float
    memory_price: float
    compute: float
    memory: float
    operating_cost: float
    traffic: float = 0.0


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """What a plan costs now; money is not rounded but for `price`.

    Attributes:
        schedule: the plan.
        cells: in its order.
        vendor_price: what its vendor takes; 0 without one.
        operating_cost: of all cells.
        compute, memory: money for all samples, and for all GB-slots.
        price: its cost rounded, which a bid must exceed; None where the bid is charged.
        traffic: money for what crosses sites; 0 but at the edge.
    """

    schedule: Schedule
    cells: tuple[PricedCell, ...]
    vendor_price: float
    operating_cost: float
    compute: float
    memory: float
    price: Money | None
    traffic: float = 0.0

    @property
    def cost(self) -> float:
        """All of it: what the mechanism compares, to the last bit."""
        cost = self.vendor_price + self.operating_cost + self.compute + self.memory
        return cost + self.traffic


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was chosen for a task, and what else there is, at the prices and room of one moment.

    Attributes:
        task: the task's id.
        chosen: the plan asked about, else the best one; None where there is no plan.
        by_vendor: the best plan with each other vendor; None where there is none.
        by_node_type: the best plan on nodes of one type alone, of each type that could run the
            task if several can; None where there is none.
        earlier: the best plan that is finished before the chosen one.
        later: the best plan for the next later deadline, within the window, at which the price is
            lower.
        earliest: the best plan for the earliest deadline that could be met within the window,
            whatever the task's own; None where the window cannot run it.
    """

    task: str
    chosen: PricedPlan | None
    by_vendor: Mapping[str, PricedPlan | None]
    by_node_type: Mapping[str, PricedPlan | None]
    earlier: PricedPlan | None
    later: PricedPlan | None
    earliest: PricedPlan | None

    @property
    def min_bid(self) -> Money | None:
        """The least bid that the chosen plan takes; None where there is no plan or price, or
        no bid can exceed it."""
        if self.chosen is None or self.chosen.price is None:
            return None
        return least_above(self.chosen.price)
