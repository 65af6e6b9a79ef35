"""A cluster of the executor's own, of which a node is lost; nodes do what a script says."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from auctune.engine.messages.base import Started
from auctune.engine.messages.node import Ended, Lost, NodeReady, Recovered, TaskQuota, Trained
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.train.job import LoraJob
from support.heard import Heard, closing
from support.market_runs import living, parent_of
from support.one_fork_server import PLACE
from support.waits import WAIT_SECONDS, poll

pytestmark = [pytest.mark.slow, pytest.mark.ray]

QUICK = SupervisorPolicy(min_backoff_seconds=0.1, retry_seconds=0.5)


@pytest.fixture(autouse=True)
def fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's workers and nodes are interpreters of their own, as everywhere but in tests."""
    monkeypatch.delenv(PLACE)


def scripted(folder: Path, *words: str) -> NodeSettings:
    folder.mkdir()
    return NodeSettings(json.dumps(words), str(folder))


def connection_error(address: str, environment: dict[str, str]) -> str:
    """Why a process with this environment cannot connect to a cluster; empty: it can."""
    check = subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    return check.stderr if check.returncode else ""


def check_closed_to_others(folder: Path, pid: int) -> None:
    """Nobody without the token, which the cluster's processes have, connects or sees a socket."""
    assert folder.stat().st_mode & 0o077 == 0
    assert any(path.is_socket() for path in folder.rglob("*"))
    address = (folder / "s" / "ray" / "ray_current_cluster").read_text()
    own = Path(f"/proc/{pid}/environ").read_text().split("\0")
    within = dict(line.split("=", 1) for line in own if "=" in line)
    assert not connection_error(address, within)
    for changes in (
        {"RAY_AUTH_TOKEN": "ab" * 32},
        {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""},
    ):
        assert "token" in connection_error(address, within | changes)


def test_a_cluster_of_its_own_is_closed_to_others_and_has_its_lost_node_again(
    tmp_path: Path,
) -> None:
    heard = Heard()
    work = tmp_path / "work"
    settings = {"alpha": scripted(tmp_path / "alpha", "good")}
    launcher = RayLauncher(settings, work, address=None, module="support.scripted_node")
    launcher.lease_seconds = 5.0
    executor = Executor(settings, launcher, heard.hear, QUICK)
    with closing(executor):
        pid = heard.wait_for(Started).pid
        heard.wait_for(NodeReady)
        # It is worth as much as any other process of the market.
        assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)
        raylet = parent_of(pid)
        folder = Path(json.loads((work / "ray-cluster.json").read_bytes())["folder"])
        check_closed_to_others(folder, pid)
        os.kill(raylet, signal.SIGKILL)
        # More than once, if the lease has lapsed before, on a busy machine.
        assert heard.wait_for(Ended).exits >= 1
        poll(lambda: not living([pid]))
        # A lost node takes no request, and it is lost while its new Ray node is long in coming.
        heard.wait_for(NodeReady)
        if heard.kinds().count(Lost) > heard.kinds().count(Recovered):
            heard.wait_for(Recovered)
        job = LoraJob("task", Path("data"))
        quota = TaskQuota(job, tmp_path / "a", 1, 8, Path("b"))
        executor.train(0, "alpha", [quota], time.time() + 600)
        assert not heard.wait_for(Trained).stale
    assert not folder.exists()


def test_nodes_of_one_id_in_two_markets_have_ray_nodes_of_their_own(tmp_path: Path) -> None:
    raylets = []
    with ExitStack() as stack:
        for market in ("one", "two"):
            heard = Heard()
            settings = {"alpha": scripted(tmp_path / market, "good")}
            launcher = RayLauncher(
                settings,
                tmp_path / market / "work",
                address=None,
                module="support.scripted_node",
            )
            stack.enter_context(closing(Executor(settings, launcher, heard.hear, QUICK)))
            pid = heard.wait_for(Started).pid
            raylets.append(parent_of(pid))
    assert len(set(raylets)) == 2
