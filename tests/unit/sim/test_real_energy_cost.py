"""What energy really costs is for the accounts: no decision sees it, files keep it."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.auction import Pdftsp, PdftspParams, make_eft
from auctune.domain import Cluster, InputError, Node, NodeType, Task
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.instance_file import instance_json, parse_instance, read_instance, write_instance
from auctune.sim.metrics import measure
from auctune.sim.workloads.build import build_workload

CLUSTER = Cluster(3, 60.0, 1.0, {"big": NodeType(8.0, 9.0, (0.8, 0.0, 0.4))}, (Node("b", "big"),))
REAL = {"big": (0.8, -1.6, 0.4)}
TASK = Task("x", 1, 1, 4.0, 2.0, Decimal("9.0000"), {"big": 4.0})
OWN = replace(TASK, id="y", operating_cost={"big": (1.0, 0.25, 1.0)})


def test_accounts_show_both_costs() -> None:
    figures = measure(simulate(Instance(CLUSTER, (TASK, OWN), REAL), make_eft(CLUSTER)))
    assert figures.num_admitted == 2
    # Half a node for a slot at 0 and at -1.6; the other task brings its own cost of 0.25.
    assert figures.operating_cost == pytest.approx(0.25)
    assert figures.real_operating_cost == pytest.approx(-0.8 + 0.25)
    assert figures.welfare == pytest.approx(18 - 0.25)
    keys = list(figures.to_json())
    assert keys[keys.index("operating_cost") + 1] == "real_operating_cost"


def test_a_report_without_real_costs_has_no_word_of_them() -> None:
    figures = measure(simulate(Instance(CLUSTER, (TASK,)), make_eft(CLUSTER)))
    assert figures.real_operating_cost is None
    assert "real_operating_cost" not in figures.to_json()


def test_no_decision_depends_on_real_costs() -> None:
    day = build_workload({"nodes": "a100:1,a40:1", "rate": "1", "seed": "2"})
    negative = dict.fromkeys(day.cluster.node_types, (-1.0,) * 144)
    plain, real = (
        simulate(market, Pdftsp(market.cluster, PdftspParams(pricing="exponential"))).decisions
        for market in (day, replace(day, real_energy_cost=negative))
    )
    assert plain == real


@given(
    costs=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
    others=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
)
def test_real_costs_survive_a_file(costs: list[float], others: list[float]) -> None:
    types = {**CLUSTER.node_types, "small": NodeType(4.0, 5.0, (1.0, 1.0, 1.0))}
    real = {"big": tuple(costs), "small": tuple(others)}
    market = Instance(replace(CLUSTER, node_types=types), (TASK,), real)
    assert parse_instance(json.loads(json.dumps(instance_json(market)))) == market


def test_a_file_without_real_costs_has_no_such_key(tmp_path: Path) -> None:
    market = Instance(CLUSTER, (TASK,))
    write_instance(market, tmp_path / "i.json")
    assert "real_energy_cost" not in (tmp_path / "i.json").read_text()
    assert read_instance(tmp_path / "i.json").real_energy_cost is None


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, 2.0], "node_types.big.real_energy_cost: has 2 entries; expected one a slot: 3"),
        ("much", "node_types.big.real_energy_cost: 'much'; expected a list of money per slot"),
        ([1.0, "x", 2.0], "node_types.big.real_energy_cost[1]: 'x'; expected money per slot"),
    ],
)
def test_malformed_real_costs_are_named(costs: object, message: str) -> None:
    data = instance_json(Instance(CLUSTER, (TASK,)))
    data["node_types"]["big"]["real_energy_cost"] = costs
    with pytest.raises(InputError) as caught:
        parse_instance(data)
    assert str(caught.value).startswith(message)


def test_real_costs_of_some_node_types_only_are_refused() -> None:
    types = {**CLUSTER.node_types, "small": NodeType(4.0, 5.0, (1.0, 1.0, 1.0))}
    cluster = replace(CLUSTER, node_types=types)
    with pytest.raises(InputError, match=r"node_types\.small\.real_energy_cost: is missing"):
        Instance(cluster, (), REAL)
    with pytest.raises(InputError, match=r"node_types\.big\.real_energy_cost\[1\]: inf"):
        Instance(CLUSTER, (), {"big": (0.0, float("inf"), 0.0)})
