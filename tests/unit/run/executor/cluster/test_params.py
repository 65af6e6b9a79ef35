import pytest

from auctune.domain import InputError
from auctune.run.executor import NodeSettings, RayParams
from auctune.run.executor.cluster.params import mark_of, needs_of


def test_what_a_node_takes_of_its_machine() -> None:
    mark = mark_of("alpha")
    assert mark == "auctune:alpha"
    on_cpu = NodeSettings("tiny", "cache", threads=3)
    assert needs_of(on_cpu, mark, own_gpu=True) == {"CPU": 3.0, mark: 0.001}
    on_gpu = NodeSettings("tiny", "cache", device="cuda")
    assert needs_of(on_gpu, "node:10.0.0.7", own_gpu=True) == {"GPU": 1.0, "node:10.0.0.7": 0.001}
    assert needs_of(on_gpu, mark, own_gpu=False) == {mark: 0.001}


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="lease_seconds"):
        RayParams(lease_seconds=0.0)
