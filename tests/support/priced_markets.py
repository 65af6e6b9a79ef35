"""Small markets with prices of slots and node types, for tests of the Lagrangian dual."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from hypothesis import strategies as st

from auctune.auction.dual import DescentParams, Supply, TaskColumns, to_columns, whole_supply
from auctune.auction.dual.descent import descend, initial_prices
from auctune.auction.dual.dual import Answers, Dual, DualPrices
from auctune.domain import Cluster, Node, NodeType, Quote, Task
from auctune.numerics.arrays import Floats
from support.dual_oracle import best_surplus, sold

# More than any node has.
TOO_MUCH = 99.0


@dataclass(frozen=True)
class PricedMarket:
    """Bids, how often each is made, and prices.

    Attributes:
        cluster: the nodes; a type may have none.
        tasks: some fit on no node.
        weights: [I] how many such tasks there are.
        lam, other_lam: [T, K] money per sample.
        phi, other_phi: [T, K] money per GB-slot.
    """

    cluster: Cluster
    tasks: list[Task]
    weights: Floats
    lam: Floats
    phi: Floats
    other_lam: Floats
    other_phi: Floats

    @property
    def columns(self) -> TaskColumns:
        return to_columns(self.tasks, self.cluster)

    @property
    def supply(self) -> Supply:
        return whole_supply(self.cluster)

    def gain(self, lam: Floats, phi: Floats) -> float:
        """The sum of w_i v_i at these prices, by its definition."""
        gains = [best_surplus(self.cluster, task, lam, phi) for task in self.tasks]
        return float(self.weights @ np.array(gains))

    def dual_value(self, lam: Floats, phi: Floats) -> float:
        """D at these prices, by its definition."""
        return self.gain(lam, phi) + sold(self.cluster, lam, phi)


@st.composite
def priced_markets(draw: st.DrawFn, *, max_tasks: int = 4) -> PricedMarket:
    """Zero and tied prices, types without nodes and tasks that fit nowhere are common."""
    cluster = draw(_clusters())
    shape = (cluster.slots, len(cluster.node_types))
    count = draw(st.sampled_from(range(max_tasks, 0, -1)))
    drawn = [draw(_tasks(cluster, f"t{index}")) for index in range(count)]
    weights = [draw(st.sampled_from([1.0, 0.5, 3.0, 1.0, 2.0, 0.0])) for _ in drawn]
    prices = [np.array(draw(_amounts(shape[0] * shape[1]))).reshape(shape) for _ in range(4)]
    return PricedMarket(cluster, drawn, np.array(weights), *prices)


def _amounts(count: int) -> st.SearchStrategy[list[float]]:
    """Nothing but zeros, ties for the most part, or no ties."""
    return st.one_of(
        st.lists(st.sampled_from([0.5, 0.0, 1.0]), min_size=count, max_size=count),
        st.lists(st.floats(0.0, 2.0), min_size=count, max_size=count),
        st.just([0.0] * count),
    )


@st.composite
def _clusters(draw: st.DrawFn) -> Cluster:
    slots = draw(st.sampled_from([4, 3, 2, 1]))
    names = [f"type{k}" for k in range(draw(st.sampled_from([3, 2, 1])))]
    types = {
        name: NodeType(
            compute=draw(st.sampled_from([6.0, 4.0, 10.0])),
            memory_gb=draw(st.sampled_from([3.0, 5.0])),
            energy_cost=tuple(draw(_amounts(slots))),
        )
        for name in names
    }
    kinds = draw(st.sampled_from([names, names, names[:1], names + names[:1]]))
    return Cluster(slots, 60.0, 1.0, types, tuple(Node(f"n{i}", k) for i, k in enumerate(kinds)))


@st.composite
def _tasks(draw: st.DrawFn, cluster: Cluster, name: str) -> Task:
    span = draw(st.sampled_from(range(cluster.slots, 0, -1)))
    arrival = draw(st.integers(0, cluster.slots - span))
    able = draw(st.permutations(sorted(cluster.node_types)))[: draw(st.sampled_from([3, 2, 1]))]
    speed = {
        kind: draw(st.sampled_from([2.0, 1.0, 3.0, 1.7, 4.0, 2.5, 1.5, 1.0, TOO_MUCH]))
        for kind in able
    }
    delays = draw(st.lists(st.integers(0, span), max_size=2))
    whole = min(speed.values()) * draw(st.sampled_from(range(span, 0, -1)))
    own = draw(st.sampled_from([False, False, True]))
    return Task(
        id=name,
        arrival=arrival,
        deadline=arrival + span - 1,
        work=whole * draw(st.sampled_from([1.0, 0.9, 1.2])),
        memory_gb=draw(st.sampled_from([0.5, 1.0, 2.0, 0.0, 0.5, 1.5, 0.1, TOO_MUCH])),
        bid=Decimal(draw(st.sampled_from(["20", "9.5", "30", "14.25", "3", "0.2501", "0"]))),
        throughput=speed,
        quotes=tuple(
            Quote(f"v{i}", Decimal(draw(st.sampled_from(["0", "0.5", "2"]))), delay)
            for i, delay in enumerate(delays)
        ),
        operating_cost={able[0]: draw(_amounts(cluster.slots))} if own else None,
    )


def lowest_prices(
    supply: Supply,
    columns: TaskColumns,
    weights: Floats,
    *,
    start: DualPrices | None = None,
    answers: Answers = "exact",
    params: DescentParams | None = None,
) -> DualPrices:
    """Prices at which one descent ends; `start`: where it begins, None: at the usual ones."""
    dual = Dual(supply, columns, weights, answers)
    return descend(dual, start or initial_prices(dual), params or DescentParams())
