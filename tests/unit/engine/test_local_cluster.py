"""A node of a local cluster that is slow to start."""

import subprocess
from dataclasses import dataclass, field
from typing import Any

import pytest

from auctune.engine.runtime.ray.local_cluster import LocalCluster, drop_folder


@dataclass
class SlowStarts:
    """A cluster whose first nodes are silent for too long: their processes are there by then."""

    too_slow: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_node(self, **_: Any) -> object:
        self.processes.append(subprocess.Popen(["sleep", "60"]))
        if len(self.processes) <= self.too_slow:
            raise Exception("The current node timed out during startup.")
        return object()


def test_a_node_that_is_silent_for_too_long_is_ended_and_tried_again() -> None:
    cluster, ray = LocalCluster({}), SlowStarts(too_slow=2)
    cluster._cluster = ray
    try:
        cluster.start_node("alpha", {"CPU": 1})
        *late, there = ray.processes
        assert [process.wait(10) for process in late] == [-9, -9]
        assert there.poll() is None
    finally:
        _end(cluster, ray)


def test_one_that_never_starts_is_an_error_and_leaves_nothing() -> None:
    cluster, ray = LocalCluster({}), SlowStarts(too_slow=9)
    cluster._cluster = ray
    try:
        with pytest.raises(Exception, match="timed out during startup"):
            cluster.start_node("alpha", {"CPU": 1})
        assert [process.wait(10) for process in ray.processes] == [-9, -9, -9]
    finally:
        _end(cluster, ray)


def _end(cluster: LocalCluster, ray: SlowStarts) -> None:
    drop_folder(cluster.folder)
    for process in ray.processes:
        process.kill()
        process.wait()
