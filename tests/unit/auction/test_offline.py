"""The offline optimum on markets whose best can be seen."""

from dataclasses import replace
from decimal import Decimal

import pytest

from auctune.auction.offline import num_cells, offline_optimum
from auctune.domain import Cluster, InputError, Node, NodeType, Quote, Reason, Task
from auctune.domain.money import LARGEST

CLUSTER = Cluster(4, 60.0, 1.0, {"gpu": NodeType(10.0, 9.0, (0.5,) * 4)}, (Node("n", "gpu"),))
TASK = Task("t", 0, 1, 20.0, 1.0, Decimal(5), {"gpu": 10.0})


def test_a_later_task_worth_more_keeps_an_earlier_one_out() -> None:
    later = replace(TASK, id="later", arrival=1, deadline=2, bid=Decimal(6))
    found = offline_optimum(CLUSTER, [TASK, later])
    assert [decision.admitted for decision in found.decisions] == [False, True]
    assert (found.welfare, found.optimal) == (5.0, True)
    assert found.bound == pytest.approx(5.0, abs=1e-5)
    assert found.gap == pytest.approx(0.0, abs=1e-5)


def test_the_vendor_whose_price_and_delay_fit_best_is_taken() -> None:
    quotes = (
        Quote("slow", Decimal("0.1"), 3),
        Quote("dear", Decimal(4), 0),
        Quote("right", Decimal(1), 2),
        Quote("beaten", Decimal("1.5"), 2),
    )
    (decision,) = offline_optimum(CLUSTER, [replace(TASK, deadline=3, quotes=quotes)]).decisions
    assert decision.schedule is not None
    assert decision.schedule.vendor == "right"
    assert [slot for slot, _ in decision.schedule.cells] == [2, 3]
    assert decision.value == 3.0
    assert decision.payment == 5


def test_rejections_say_whether_anything_would_have_been_possible() -> None:
    tasks = [
        replace(TASK, id="too much", work=21.0),
        replace(TASK, id="worth less than its energy", bid=Decimal("0.9")),
        replace(TASK, id="worth less than its vendor", quotes=(Quote("v", Decimal(6), 0),)),
    ]
    found = offline_optimum(CLUSTER, tasks)
    assert [decision.reason for decision in found.decisions] == [
        Reason.NO_FEASIBLE_SCHEDULE,
        Reason.UNPROFITABLE,
        Reason.UNPROFITABLE,
    ]
    assert found.welfare == 0.0
    assert found.bound == pytest.approx(0.0, abs=1e-4)


def test_amounts_of_all_sizes_do_not_blur_each_other() -> None:
    ruinous = replace(TASK, id="ruinous", operating_cost={"gpu": (1e12,) * 4})
    found = offline_optimum(CLUSTER, [ruinous, replace(TASK, bid=Decimal("1.0001"))])
    assert [decision.admitted for decision in found.decisions] == [False, True]
    assert found.bound == pytest.approx(0.0001, abs=1e-6)
    rich = offline_optimum(CLUSTER, [replace(TASK, bid=LARGEST)])
    assert rich.welfare == pytest.approx(float(LARGEST))


def test_no_tasks_have_no_welfare() -> None:
    found = offline_optimum(CLUSTER, [])
    assert (found.decisions, found.welfare, found.optimal) == ((), 0.0, True)
    assert found.bound == pytest.approx(0.0, abs=1e-6)


def test_cells_are_counted_by_window_and_by_nodes_that_can_run_a_task() -> None:
    types = {"gpu": NodeType(10.0, 9.0, (0.5,) * 4), "other": NodeType(10.0, 9.0, (0.5,) * 4)}
    nodes = (Node("n", "gpu"), Node("m", "gpu"), Node("o", "other"))
    both = replace(TASK, id="u", deadline=2, throughput={"gpu": 10.0, "other": 10.0})
    assert num_cells(replace(CLUSTER, node_types=types, nodes=nodes), [TASK, both]) == 2 * 2 + 3 * 3


def test_a_task_of_another_cluster_is_refused() -> None:
    with pytest.raises(InputError, match="deadline: 9 is beyond the last slot"):
        offline_optimum(CLUSTER, [replace(TASK, deadline=9)])
