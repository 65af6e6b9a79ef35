"""Bounds on welfare, for a whole instance and by day of arrival."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.domain import Cluster, InputError, Node, NodeType, Task
from auctune.registry import mechanisms
from auctune.sim.bound import LARGEST_MILP, WelfareBound, bound_kinds, welfare_bound
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from support.markets import random_market

KINDS = [kind for kind in bound_kinds() if kind != "none"]

# Three days of two slots; one node, on which one task runs a slot at no cost.
CLUSTER = Cluster(6, 43_200.0, 1.0, {"gpu": NodeType(10.0, 9.0, (0.0,) * 6)}, (Node("n", "gpu"),))
TASK = Task("t", 0, 1, 20.0, 1.0, Decimal(8), {"gpu": 10.0})
MARKET = Instance(
    CLUSTER,
    (
        TASK,
        replace(TASK, id="u", work=10.0, bid=Decimal(5)),
        replace(TASK, id="v", arrival=5, deadline=5, work=10.0, bid=Decimal(3)),
    ),
)


def test_no_bound_says_nothing() -> None:
    assert welfare_bound("none", MARKET) == WelfareBound()
    report = measure(simulate(MARKET, mechanisms.build("eft", CLUSTER)))
    assert report.to_json()["bound"] == {"kind": "none", "value": None, "ratio": None}
    assert [day.bound for day in report.by_day] == [None, None, None]


def test_the_optimum_is_the_bound_of_a_small_market() -> None:
    bound = welfare_bound("milp", MARKET)
    assert bound.exact
    # The first task takes both slots of its day: 8, and 5 is lost.
    assert bound.value == pytest.approx(11, abs=1e-4)
    assert bound.by_day == pytest.approx((8, 0, 3), abs=1e-4)


def test_a_report_gives_welfare_over_its_bound_also_by_day() -> None:
    late = replace(MARKET, tasks=(MARKET.tasks[1], MARKET.tasks[0], MARKET.tasks[2]))
    report = measure(simulate(late, mechanisms.build("eft", CLUSTER)), welfare_bound("milp", late))
    assert report.welfare == 8
    assert list(report.to_json()["bound"]) == ["kind", "value", "ratio", "exact"]
    assert (report.bound.kind, report.bound.exact) == ("milp", True)
    assert report.bound.ratio == pytest.approx(8 / 11, abs=1e-4)
    days = report.to_json()["by_day"]
    assert [(day["num_tasks"], day["num_admitted"], day["welfare"]) for day in days] == [
        (2, 1, 5.0),
        (0, 0, 0.0),
        (1, 1, 3.0),
    ]
    assert [day["ratio"] for day in days] == [
        pytest.approx(5 / 8, abs=1e-4),
        None,
        pytest.approx(1),
    ]


def test_a_market_of_one_day_has_no_days() -> None:
    one_day = replace(MARKET, cluster=replace(CLUSTER, slot_seconds=14_400.0))
    assert welfare_bound("milp", one_day).by_day == ()
    report = measure(simulate(one_day, mechanisms.build("eft", one_day.cluster)))
    assert "by_day" not in report.to_json()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_by_day_hold_where_a_day_s_tasks_run_on_the_next(kind: str) -> None:
    market = random_market(np.random.default_rng(2), slots=12, num_tasks=40)
    days = replace(market, cluster=replace(market.cluster, slot_seconds=21_600.0))
    bound = welfare_bound(kind, days)
    assert len(bound.by_day) == 3
    for name in mechanisms.mechanism_names():
        report = measure(
            simulate(days, mechanisms.build(name, days.cluster, {}, days.tasks)), bound
        )
        assert report.bound.ratio is not None
        assert 0 < report.bound.ratio <= 1
        assert all(day.welfare <= (day.bound or 0.0) for day in report.by_day)
        assert sum(day.welfare for day in report.by_day) == pytest.approx(report.welfare)


def test_an_instance_too_large_for_its_optimum_is_refused_with_its_size() -> None:
    nodes = tuple(Node(f"n{i}", "gpu") for i in range(LARGEST_MILP // 2 + 1))
    large = Instance(replace(CLUSTER, nodes=nodes), (TASK,))
    with pytest.raises(InputError, match=r"^bound: milp is out of reach for 20,002 cells"):
        welfare_bound("milp", large)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"^bound: 'best' is not offered; expected one of none, "):
        welfare_bound("best", MARKET)
