"""Values that cannot be: refused where they are made, by the name of their field."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from auctune.domain import (
    Cell,
    Cluster,
    Decision,
    InputError,
    MenuLine,
    Node,
    NodeType,
    PriceMenu,
    Quote,
    Reason,
    Schedule,
    Task,
)
from auctune.domain.money import LARGEST, STEP, parse_money

KIND = NodeType(10.0, 8.0, (0.5, 0.5))
CLUSTER = Cluster(2, 60.0, 1.0, {"gpu": KIND}, (Node("n0", "gpu"),))
TASK = Task("t", 0, 1, 5.0, 1.0, Decimal("3.0000"), {"gpu": 4.0})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: replace(KIND, compute=0.0), "compute: 0.0; expected samples"),
        (lambda: replace(KIND, memory_gb=float("nan")), "memory_gb: nan"),
        (lambda: replace(KIND, energy_cost=(0.0, -1.0)), r"energy_cost\[1\]: -1.0"),
        (lambda: replace(CLUSTER, slots=0), "slots: 0"),
        (lambda: replace(CLUSTER, slot_seconds=0.0), "slot_seconds: 0.0"),
        (lambda: replace(CLUSTER, base_memory_gb=-1.0), "base_memory_gb: -1.0"),
        (lambda: replace(CLUSTER, base_memory_gb=8.0), "node_types.gpu.memory_gb: 8.0 cannot hold"),
        (lambda: replace(CLUSTER, slots=3), "node_types.gpu.energy_cost: has 2 entries"),
        (lambda: replace(CLUSTER, nodes=()), "nodes: is empty"),
        (lambda: replace(CLUSTER, nodes=CLUSTER.nodes * 2), r"nodes\[1\].id: 'n0' is a duplicate"),
        (lambda: replace(CLUSTER, nodes=(Node("a", "x"),)), r"nodes\[0\].type: 'x' is unknown"),
        (lambda: replace(TASK, id=""), "id: is empty"),
        (lambda: replace(TASK, arrival=-1), "arrival: -1"),
        (lambda: replace(TASK, arrival=2), "deadline: 1 is before arrival 2"),
        (lambda: replace(TASK, work=0.0), "work: 0.0"),
        (lambda: replace(TASK, memory_gb=-0.1), "memory_gb: -0.1"),
        (lambda: replace(TASK, bid=Decimal(-1)), "bid: -1"),
        (lambda: replace(TASK, throughput={}), "throughput: is empty"),
        (lambda: replace(TASK, throughput={"gpu": 0.0}), "throughput.gpu: 0.0"),
        (
            lambda: replace(TASK, operating_cost={"gpu": (0.0, float("inf"))}),
            r"operating_cost.gpu\[1\]: inf",
        ),
        (lambda: Quote("v", Decimal(-1), 0), "price: -1"),
        (lambda: Quote("v", Decimal(1), -1), "delay: -1"),
    ],
)
def test_an_impossible_value_is_refused_by_name(change: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        change()


def test_a_schedule_has_cells_in_slot_order() -> None:
    schedule = Schedule((Cell(1, "a"), Cell(4, "b")))
    assert (schedule.start, schedule.finish) == (1, 4)
    with pytest.raises(ValueError, match="without cells"):
        Schedule(())
    with pytest.raises(ValueError, match="slot order"):
        Schedule((Cell(1, "a"), Cell(1, "b")))


def test_a_decision_is_whole() -> None:
    with pytest.raises(ValueError, match="a schedule if and only if admitted"):
        Decision("t", admitted=True)
    with pytest.raises(ValueError, match="a reason if and only if rejected"):
        Decision("t", admitted=False)
    rejected = Decision("t", admitted=False, price=Decimal("1.5000"), reason=Reason.UNPROFITABLE)
    assert rejected.min_bid == Decimal("1.5001")
    assert Decision("t", admitted=False, reason=Reason.NO_CAPACITY).min_bid is None


def test_a_price_that_no_bid_can_exceed_has_no_least_bid() -> None:
    def least(price: Decimal) -> Decimal | None:
        reason = Reason.UNPROFITABLE
        return Decision("t", admitted=False, price=price, reason=reason).min_bid

    assert least(LARGEST) is None
    below = least(LARGEST - STEP)
    assert below is not None
    assert parse_money(str(below), "bid") == LARGEST


def test_a_menu_answers_by_deadline() -> None:
    early = MenuLine(2, Decimal(5), Schedule((Cell(2, "a"),)))
    late = MenuLine(4, Decimal(3), Schedule((Cell(4, "a"),)))
    menu = PriceMenu("t", (early, late))
    assert [menu.by(deadline) for deadline in range(1, 6)] == [None, early, early, late, late]
