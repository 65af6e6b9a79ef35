"""Instance files: what is read is what was written, and what is wrong is named in one line."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from auctune.domain import Cluster, InputError, Task
from auctune.sim.instance import Instance
from auctune.sim.instance_file import instance_json, parse_instance, read_instance, write_instance
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance
from support.instances import instances
from support.markets import random_market
from support.thorough import drawn

GOOD: dict[str, Any] = {
    "slots": 3,
    "slot_seconds": 600,
    "base_memory_gb": 2,
    "node_types": {"gpu": {"compute": 10, "memory_gb": 8.5, "energy_cost": [0.1, 0, 1]}},
    "nodes": [{"id": "n0", "type": "gpu"}],
    "tasks": [
        {
            "id": "t0",
            "arrival": 0,
            "deadline": 2,
            "work": 12,
            "memory_gb": 1.5,
            "bid": 7.25,
            "throughput": {"gpu": 5},
            "quotes": [{"vendor": "v", "price": 0.1, "delay": 1}],
            "operating_cost": {"gpu": [0, 0.5, 0.25]},
        },
        {
            "id": "t1",
            "arrival": 1,
            "deadline": 1,
            "work": 1,
            "memory_gb": 0,
            "bid": 1,
            "throughput": {"gpu": 5},
        },
    ],
}


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set the field at `path` (keys and indices, joined by dots), or drop it."""
    *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]

    def apply(data: Any) -> None:
        for part in outer:
            data = data[part]
        if value is DROP:
            del data[last]
        else:
            data[last] = value

    return apply


DROP = object()
FAULTS = [
    ("slots", DROP, "slots: is missing; expected a number of slots >= 1"),
    ("slots", 3.0, "slots: 3.0; expected a number of slots >= 1"),
    ("slots", "3", "slots: '3'; expected a number of slots >= 1"),
    ("slots", True, "slots: true; expected a number of slots >= 1"),
    ("slots", 0, "slots: 0; expected a number of slots >= 1"),
    ("slots", 4, "node_types.gpu.energy_cost: has 3 entries; expected one per slot: 4"),
    ("slot_seconds", 0, "slot_seconds: 0.0; expected seconds > 0"),
    ("base_memory_gb", 9, "node_types.gpu.memory_gb: 8.5 cannot hold the base model"),
    ("hours", 3, "hours: is an unknown key; expected one of slots, slot_seconds"),
    ("nodes", {}, "nodes: a table; expected a list of nodes"),
    ("nodes", [], "nodes: is empty; expected at least one node"),
    ("nodes.0", 3, "nodes[0]: 3; expected an object with id, type"),
    ("nodes.0.type", "cpu", "nodes[0].type: 'cpu' is unknown; expected one of 'gpu'"),
    ("nodes.0.colour", "red", "nodes[0].colour: is an unknown key; expected one of id"),
    ("node_types", [], "node_types: a list; expected an object: node types by name"),
    ("node_types.gpu", None, "node_types.gpu: null; expected an object with compute"),
    ("node_types.gpu.compute", -1, "node_types.gpu.compute: -1.0; expected samples per slot > 0"),
    ("node_types.gpu.energy_cost.1", "x", "node_types.gpu.energy_cost[1]: 'x'; expected money"),
    ("node_types.gpu.energy_cost.1", -2, "node_types.gpu.energy_cost[1]: -2.0; expected money"),
    ("node_types.gpu.energy_cost", [0], "node_types.gpu.energy_cost: has 1 entries"),
    ("tasks", None, "tasks: null; expected a list of tasks"),
    ("tasks.1", [], "tasks[1]: a list; expected an object with id, arrival, deadline"),
    ("tasks.1.id", "t0", "tasks[1].id: 't0' is there twice; expected unique ids"),
    ("tasks.1.id", "", "tasks[1].id: is empty; expected a name"),
    ("tasks.1.id", 5, "tasks[1].id: 5; expected a name"),
    ("tasks.1.arrival", -1, "tasks[1].arrival: -1; expected a slot >= 0"),
    ("tasks.1.arrival", 2, "tasks[1].deadline: 1 is before arrival 2; expected a slot >= arrival"),
    ("tasks.1.deadline", 3, "tasks[1].deadline: 3 is beyond the last slot; expected a slot of the"),
    ("tasks.1.deadline", DROP, "tasks[1].deadline: is missing; expected a slot >= arrival"),
    ("tasks.1.work", 0, "tasks[1].work: 0.0; expected samples > 0"),
    ("tasks.1.work", False, "tasks[1].work: false; expected samples > 0"),
    ("tasks.1.memory_gb", -1, "tasks[1].memory_gb: -1.0; expected GB >= 0"),
    ("tasks.1.bid", "7", "tasks[1].bid: '7'; expected an amount of money >= 0 with at most 4"),
    ("tasks.1.bid", True, "tasks[1].bid: true; expected an amount of money"),
    ("tasks.1.bid", -1, "tasks[1].bid: -1 is negative; expected an amount of money"),
    ("tasks.1.bid", 0.00001, "tasks[1].bid: 1e-05 has more than 4 decimals; expected an amount"),
    ("tasks.1.bid", 1e300, "tasks[1].bid: 1e+300 is out of range; expected an amount of money"),
    ("tasks.1.throughput", {}, "tasks[1].throughput: is empty; expected samples per slot"),
    ("tasks.1.throughput.gpu", 0, "tasks[1].throughput.gpu: 0.0; expected samples per slot > 0"),
    ("tasks.1.throughput.gpu", [], "tasks[1].throughput.gpu: a list; expected samples per"),
    (
        "tasks.1.throughput.tpu",
        1,
        "tasks[1].throughput.tpu: is not a node type; expected one of",
    ),
    ("tasks.0.quotes.0.price", None, "tasks[0].quotes[0].price: null; expected an amount"),
    ("tasks.0.quotes.0.price", -1, "tasks[0].quotes[0].price: -1 is negative; expected an amount"),
    ("tasks.0.quotes.0.delay", -1, "tasks[0].quotes[0].delay: -1; expected a number of slots >= 0"),
    ("tasks.0.quotes.0.delay", 0.5, "tasks[0].quotes[0].delay: 0.5; expected a number of slots"),
    ("tasks.0.quotes.0.vendor", DROP, "tasks[0].quotes[0].vendor: is missing; expected a name"),
    ("tasks.0.quotes.0", [], "tasks[0].quotes[0]: a list; expected an object with vendor"),
    ("tasks.0.operating_cost.gpu", [0], "tasks[0].operating_cost.gpu: has 1 entries; expected one"),
    ("tasks.0.operating_cost.gpu", 1, "tasks[0].operating_cost.gpu: 1; expected a list of money"),
    ("tasks.0.operating_cost.gpu.2", -1, "tasks[0].operating_cost.gpu[2]: -1.0; expected money"),
    ("tasks.0.operating_cost.gpu.2", "", "tasks[0].operating_cost.gpu[2]: ''; expected money"),
    ("tasks.0.operating_cost.tpu", [0, 0, 0], "tasks[0].operating_cost.tpu: is not a node type"),
    ("tasks.0.colour", "x" * 99, "tasks[0].colour: is an unknown key; expected one of id"),
]


@pytest.mark.parametrize(("path", "value", "message"), FAULTS)
def test_what_is_wrong_is_named_in_one_line(
    tmp_path: Path, path: str, value: Any, message: str
) -> None:
    data = copy.deepcopy(GOOD)
    change(path, value)(data)
    file = tmp_path / "market.json"
    file.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        read_instance(file)
    assert str(caught.value).startswith(f"{file}: {message}")
    assert "; expected " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_second_quote_of_a_vendor_is_refused() -> None:
    data = copy.deepcopy(GOOD)
    data["tasks"][0]["quotes"] *= 2
    with pytest.raises(InputError, match=r"^tasks\[0\].quotes\[1\].vendor: 'v' is there twice"):
        parse_instance(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file: is not JSON: Expecting value in line 1, column 1; expected an instance"),
        (b"{\n 'slots': 3}", "the file: is not JSON: .* in line 2, column 2; expected"),
        (b"\xff\xfe{}", "the file: is not UTF-8 text; expected an instance as JSON"),
        (b"[]", "the file: a list; expected an object with slots, slot_seconds"),
        (b'{"slots": NaN}', "the file: holds NaN; expected finite JSON numbers"),
        (
            b'{"slots": 1, "slots": 2}',
            "the file: has the key 'slots' twice in one object; expected",
        ),
        (b'{"slots": ' + b"1" * 5000 + b"}", "the file: holds a number out of range; expected"),
        (b'{"slots": ' + b"[" * 100_000, "the file: is nested too deeply; expected an instance"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "market.json"
    file.write_bytes(text)
    with pytest.raises(InputError, match=message) as caught:
        read_instance(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_number_beyond_all_floats_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "market.json"
    file.write_text(json.dumps(GOOD).replace("7.25", "1e999"))
    with pytest.raises(InputError, match=r"tasks\[0\].bid: inf; expected an amount of money"):
        read_instance(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.json: the file: cannot be read \(No such file"):
        read_instance(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_instance(tmp_path)


def test_quotes_and_operating_cost_may_be_left_out_or_null() -> None:
    data = copy.deepcopy(GOOD)
    data["tasks"][1] |= {"quotes": None, "operating_cost": None}
    assert parse_instance(data) == parse_instance(GOOD)
    assert parse_instance(GOOD).tasks[1].quotes == ()


def assert_round_trip(instance: Instance, file: Path) -> None:
    write_instance(instance, file)
    again = read_instance(file)
    assert again == instance
    # Operating costs take no part in the equality of tasks.
    assert instance_json(again) == instance_json(instance)
    assert [task.operating_cost for task in again.tasks] == [
        task.operating_cost for task in instance.tasks
    ]


def test_what_is_written_is_read_back_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(20)
    for _ in range(10):
        assert_round_trip(random_market(rng), tmp_path / "market.json")
    params = SyntheticParams(nodes={"a100": 2, "a40": 1}, rate=1)
    assert_round_trip(make_instance(params), tmp_path / "market.json")


@drawn(50)
@given(instance=instances())
def test_the_json_value_of_an_instance_gives_it_back(instance: tuple[Cluster, list[Task]]) -> None:
    cluster, tasks = instance
    data = instance_json(Instance(cluster, tuple(tasks)))
    assert instance_json(parse_instance(json.loads(json.dumps(data)))) == data
