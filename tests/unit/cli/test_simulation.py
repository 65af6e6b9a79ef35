"""Bids of earlier days: read in order, refused where they are of another market."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from auctune.cli.simulation import read_history, require_learning_mechanism
from auctune.domain import Cluster, InputError, Node, NodeType, Task
from auctune.sim.comparison import Entry
from auctune.sim.instance import Instance
from auctune.sim.instance_file import write_instance

CLUSTER = Cluster(2, 60.0, 1.0, {"gpu": NodeType(10.0, 8.0, (0.1, 0.2))}, (Node("n", "gpu"),))
TASK = Task("t", 1, 1, 5.0, 1.0, Decimal("3.5000"), {"gpu": 5.0})


def saved(path: Path, cluster: Cluster, *tasks: Task) -> Path:
    write_instance(Instance(cluster, tasks), path)
    return path


def test_days_come_as_given_and_their_bids_by_arrival(tmp_path: Path) -> None:
    early = replace(TASK, id="early", arrival=0)
    first = saved(tmp_path / "1.json", CLUSTER, TASK, early)
    second = saved(tmp_path / "2.json", CLUSTER)
    assert read_history([first, second], CLUSTER) == [[early, TASK], []]


def test_a_day_may_be_of_another_length_and_of_other_nodes(tmp_path: Path) -> None:
    day = saved(tmp_path / "day.json", CLUSTER, TASK)
    longer = {"gpu": NodeType(99.0, 80.0, (0.1,) * 9)}
    assert read_history([day], replace(CLUSTER, slots=9, node_types=longer)) == [[TASK]]


def test_a_day_of_other_slots_is_refused(tmp_path: Path) -> None:
    day = saved(tmp_path / "day.json", replace(CLUSTER, slot_seconds=600.0), TASK)
    with pytest.raises(InputError, match=r"day.json: slot_seconds: 600; expected 60, as in the"):
        read_history([day], CLUSTER)


@pytest.mark.parametrize("field", ["throughput", "operating_cost"])
def test_a_bid_for_nodes_that_this_market_lacks_is_refused(field: str, tmp_path: Path) -> None:
    types = dict.fromkeys(("gpu", "tpu"), CLUSTER.node_types["gpu"])
    foreign = {"throughput": {"tpu": 5.0}, "operating_cost": {"tpu": (0.0, 0.0)}}
    task = replace(TASK, **{field: foreign[field]})  # type: ignore[arg-type]  # one of two fields
    day = saved(
        tmp_path / "day.json", replace(CLUSTER, node_types=types), TASK, replace(task, id="u")
    )
    with pytest.raises(
        InputError, match=rf"day.json: tasks\[1\].{field}.tpu: is not a node type of this market"
    ):
        read_history([day], CLUSTER)


def test_earlier_days_are_refused_where_nobody_learns_from_them() -> None:
    baselines = [Entry("eft", "eft", {}), Entry("ntm:seed=2", "ntm", {"seed": "2"})]
    with pytest.raises(
        InputError, match=r"^--history: eft or ntm:seed=2 with these settings cannot"
    ):
        require_learning_mechanism(baselines)
