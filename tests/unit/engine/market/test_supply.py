"""The nodes of a market on the cores of this machine."""

import os

import pytest

from auctune.engine.market.market_file import MarketFile
from auctune.engine.market.supply import threads_per_node
from support.market_runs import small_market

GPU = {"measure": True, "device": "cuda:0"}
CPU = {"measure": True}
TWO = {"measure": True, "devices": 2}


@pytest.mark.parametrize(
    ("types", "threads", "expected"),
    [
        (["gpu", "gpu"], None, 4),
        (["gpu", "gpu", "cpu", "cpu"], None, 2),
        (["cpu"] * 9, None, 1),
        (["gpu", "gpu"], 3, 3),
        (["two", "gpu"], None, 2),
    ],
)
def test_all_nodes_share_the_cores_unless_threads_are_stated(
    types: list[str], threads: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    table = small_market() | {
        "threads": threads,
        "node_types": {"gpu": GPU, "cpu": CPU, "two": TWO},
        "nodes": [{"id": f"n{index}", "type": name} for index, name in enumerate(types)],
    }
    assert threads_per_node(MarketFile.model_validate(table)) == expected
