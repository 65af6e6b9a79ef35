"""A local cluster: its environment, and a node that is slow to start."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.engine.runtime.ray.local_cluster import (
    LocalCluster,
    drop_folder,
    set_ray_environment,
)

TOKEN = "RAY_AUTH_TOKEN"


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not imported Ray, in an environment without a token."""
    monkeypatch.setattr(os, "environ", {"PATH": os.environ["PATH"]})
    monkeypatch.delitem(sys.modules, "ray", raising=False)


@pytest.mark.usefixtures("without_ray")
def test_clusters_of_a_process_have_one_random_token_or_that_of_the_environment() -> None:
    set_ray_environment()
    token = os.environ.pop(TOKEN)
    assert len(bytes.fromhex(token)) == 32
    set_ray_environment()
    assert os.environ[TOKEN] != token
    os.environ |= {TOKEN: "an operator's", "RAY_AUTH_MODE": "disabled"}
    set_ray_environment()
    assert (os.environ[TOKEN], os.environ["RAY_AUTH_MODE"]) == ("an operator's", "token")


@pytest.mark.usefixtures("without_ray")
def test_ray_that_was_imported_without_the_token_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_ray_environment()
    monkeypatch.setitem(sys.modules, "ray", sys)
    set_ray_environment()
    del os.environ[TOKEN]
    with pytest.raises(InputError, match=f"^ray: .*imported without {TOKEN} in the environment"):
        set_ray_environment()


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
