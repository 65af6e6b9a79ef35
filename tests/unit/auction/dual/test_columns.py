"""Bids as columns, on a market that shows every case."""

from decimal import Decimal

import numpy as np

from auctune.auction.dual import to_columns, whole_supply
from auctune.domain import Cluster, Node, NodeType, Quote, Task

CLUSTER = Cluster(
    2,
    60.0,
    1.0,
    {
        "a": NodeType(10.0, 9.0, (2.0, 4.0)),
        "idle": NodeType(4.0, 5.0, (1.0, 1.0)),
        "b": NodeType(8.0, 3.0, (0.0, 1.0)),
    },
    (Node("n", "b"), Node("m", "a"), Node("o", "b")),
)
PLAIN = Task("plain", 0, 1, 5.0, 0.5, Decimal("1.5"), {"b": 4.0})
OWN = Task(
    "own",
    1,
    1,
    7.0,
    1.5,
    Decimal(2),
    {"a": 5.0, "b": 2.0},
    (Quote("v", Decimal("0.25"), 1), Quote("w", Decimal(0), 0)),
    {"b": (3.0, 6.0)},
)


def test_tasks_stand_in_their_order_with_a_free_quote_where_none_is_needed() -> None:
    columns = to_columns([PLAIN, OWN, PLAIN], CLUSTER)
    assert columns.num_tasks == 3
    assert columns.arrival.tolist() == [0, 1, 0]
    assert columns.deadline.tolist() == [1, 1, 1]
    assert columns.work.tolist() == [5.0, 7.0, 5.0]
    assert columns.memory_gb.tolist() == [0.5, 1.5, 0.5]
    assert columns.bid.tolist() == [1.5, 2.0, 1.5]
    assert columns.throughput.tolist() == [[0, 0, 4], [5, 0, 2], [0, 0, 4]]
    assert columns.first_quote.tolist() == [0, 1, 3, 4]
    assert columns.quote_price.tolist() == [0.0, 0.25, 0.0, 0.0]
    assert columns.quote_delay.tolist() == [0, 1, 0, 0]


def test_own_costs_stand_for_energy_only_where_they_are_given() -> None:
    columns = to_columns([PLAIN, OWN], CLUSTER)
    assert columns.own_cost.tolist() == [-1, 0]
    assert columns.costs.tolist() == [[[1.0, 2.0], [0.0, 0.0], [3.0, 6.0]]]


def test_no_tasks_are_columns_of_no_length() -> None:
    columns = to_columns([], CLUSTER)
    assert columns.num_tasks == 0
    assert columns.throughput.shape == (0, 3)
    assert columns.first_quote.tolist() == [0]
    assert columns.costs.shape == (0, 3, 2)


def test_supply_adds_up_nodes_of_a_type_without_the_base_model() -> None:
    supply = whole_supply(CLUSTER)
    np.testing.assert_allclose(supply.compute, [[10, 0, 16]] * 2, rtol=1e-8)
    np.testing.assert_allclose(supply.memory, [[8, 0, 4]] * 2, rtol=1e-8)
    np.testing.assert_allclose(supply.energy, [[0.2, 0.25, 0.0], [0.4, 0.25, 0.125]])
    assert supply.node_compute.tolist() == [10.0, 0.0, 8.0]
    assert supply.node_memory.tolist() == [8.0, 4.0, 2.0]


def test_supply_is_never_less_than_what_full_nodes_may_hold() -> None:
    supply = whole_supply(CLUSTER)
    # Nodes are filled up to a relative 1e-9 beyond their capacity.
    assert (supply.compute >= np.array([10, 0, 16]) * (1 + 1e-9)).all()
    assert (supply.memory >= np.array([8, 0, 4]) * (1 + 1e-9)).all()
