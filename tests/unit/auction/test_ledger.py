"""The capacity ledger: snapshots of it are restored whole, or refused and nothing changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auctune.auction.ledger import CapacityLedger
from auctune.domain import Cluster, InputError, Node, NodeType

CLUSTER = Cluster(
    3,
    60.0,
    1.0,
    {"small": NodeType(4.0, 9.0, (0.1,) * 3), "large": NodeType(8.0, 17.0, (0.2,) * 3)},
    (Node("s-1", "small"), Node("l-1", "large"), Node("l-2", "large")),
)


def sold(cluster: Cluster) -> CapacityLedger:
    """A ledger whose window has moved by a slot, with cells sold and a node lost."""
    ledger = CapacityLedger(cluster, prune=True, energy=lambda name, slot: 0.1 * slot)
    ledger.advance(ledger.entering(1))
    cells = ledger.indices([(1, "l-1"), (2, "l-1"), (2, "s-1")])
    ledger.allocate(*cells, np.array([3.0, 6.0]), 5.0)
    ledger.fail_node("l-2", 3)
    return ledger


def assert_same(first: CapacityLedger, second: CapacityLedger) -> None:
    ours, theirs = first.save(), second.save()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def test_a_restored_ledger_is_the_one_that_was_saved() -> None:
    restored = CapacityLedger(CLUSTER, prune=True, energy=lambda name, slot: 0.0)
    restored.load(sold(CLUSTER).save())
    assert_same(restored, sold(CLUSTER))


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "other nodes": lambda saved: saved.update(nodes=["s-1", "l-1"]),
    "a market with an end": lambda saved: saved.update(rolls=False),
    "no first slot": lambda saved: saved.update(first=None),
    "a first slot before the first row": lambda saved: saved.update(first=0, origin=1),
    "a window beyond the rows": lambda saved: saved.update(first=4, origin=0),
    "a lost node that there is not": lambda saved: saved.update(lost=[3]),
    "use of fewer slots": lambda saved: saved.update(memory=saved["memory"][1:]),
    "use in words": lambda saved: saved.update(tasks=saved["tasks"].astype(str)),
    "candidates as a list": lambda saved: saved.update(candidates=[0, 1, 2]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_refused_snapshot_leaves_the_ledger_as_it_was(damage: str) -> None:
    ledger, saved = sold(CLUSTER), dict(sold(CLUSTER).save())
    ledger.advance(ledger.entering(2))
    ledger.restore_node("l-2", 2)
    before = sold(CLUSTER)
    before.advance(before.entering(2))
    before.restore_node("l-2", 2)
    DAMAGES[damage](saved)
    with pytest.raises(InputError, match="snapshot"):
        ledger.load(saved)
    assert_same(ledger, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"compute": 5.0},
            r"snapshot.compute: 6 sold of node 'l-1' in slot 1; expected 5 at most",
        ),
        (
            {"memory_gb": 5.5},
            r"snapshot.memory: 5 sold of node 'l-1' in slot 1; expected 4.5 at most",
        ),
    ],
)
def test_more_sold_than_a_node_holds_is_refused_and_named(
    change: dict[str, float], message: str
) -> None:
    large: Any = replace(CLUSTER.node_types["large"], **change)  # type: ignore[arg-type]
    lesser = replace(CLUSTER, node_types={**CLUSTER.node_types, "large": large})
    ledger = CapacityLedger(lesser, prune=True, energy=lambda name, slot: 0.0)
    with pytest.raises(InputError, match=message):
        ledger.load(sold(CLUSTER).save())
    assert ledger.horizon.first == 0
    assert not ledger.usage.tasks.any()
