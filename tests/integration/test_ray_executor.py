"""What only a cluster does to nodes that train: power cuts, a new head, drivers lost."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from auctune.engine.base_facts import Elsewhere, learn_base
from auctune.engine.messages.base import Started
from auctune.engine.messages.node import (
    Ended,
    Lost,
    NodeReady,
    NotCompleted,
    Progress,
    Recovered,
    TaskQuota,
    Trained,
)
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.service.zones.auction.kind import RayExecutorFactory
from auctune.train.base import load_base
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.executor_kinds import LEASE_SECONDS
from support.heard import Heard, closing
from support.market_runs import living
from support.ray_nodes import RayNodes
from support.small_bases import write_rows

pytest_plugins = ["support.tiny_bases", "support.executor_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.ray]

M = TypeVar("M")

ROWS, EPOCHS = 40, 6
QUICK = SupervisorPolicy(min_backoff_seconds=0.1, retry_seconds=0.5)


@dataclass
class AtWork:
    """Nodes under an executor on the cluster, of which one trains."""

    executor: Executor
    heard: Heard
    order: TaskQuota

    def last(self, kind: type[M], node: str = "alpha") -> M:
        """The newest message of a class."""
        messages = reversed(self.heard.messages)
        return next(m for n, m in messages if n == node and isinstance(m, kind))

    def answer(self) -> Trained:
        """What comes of the order."""
        return self.heard.wait_for(Trained, stale=False)


def agent_of() -> int:
    """The agent that this process has started."""
    for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in child.read_text().split():
            if b"runtime.ray.agent" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
    raise AssertionError("there is no agent")


def train_disturbed(
    cluster: RayNodes,
    cache: Path,
    folder: Path,
    disturb: Callable[[AtWork], None],
    params: SupervisorPolicy = QUICK,
    missing_seconds: float = 4.0,
) -> None:
    """Train a task on a node, disturb it at work, and compare with training without processes."""
    job = LoraJob(
        id="task",
        data=write_rows(folder / "rows.jsonl", ROWS, seed=1, longest=4),
        epochs=EPOCHS,
        rank=4,
        dropout=0.1,
        batch_size=3,
        max_length=32,
    )
    heard = Heard()
    order = TaskQuota(job, folder / "work" / "task", 1, ROWS * EPOCHS // 2, folder / "out")
    settings = {"alpha": NodeSettings("tiny", str(cache), mode="exact")}
    launcher = RayLauncher(settings, folder / "work", address=cluster.address)
    launcher.lease_seconds, launcher.missing_seconds = LEASE_SECONDS, missing_seconds
    executor = Executor(settings, launcher, heard.hear, params)
    with closing(executor):
        heard.wait_for(NodeReady)
        # While the actor of the test before held its place, the node was lost.
        if Lost in heard.kinds():
            heard.wait_for(Recovered)
        executor.train(0, "alpha", [order], time.time() + 600)
        at_work = AtWork(executor, heard, order)
        at_work.answer()
        at_work.order = TaskQuota(job, order.folder, 2, ROWS * EPOCHS, order.adapter)
        executor.train(1, "alpha", [at_work.order], time.time() + 600)
        heard.wait_for(Progress, stale=False)
        pid = at_work.last(Started).pid
        disturb(at_work)
        answer = at_work.answer()
        assert answer.results["task"].rows == ROWS * EPOCHS
        assert not living([pid])
    trainer = MultiLoraTrainer(load_base("tiny", cache=cache), mode="exact")
    trainer.load(job, folder / "alone" / "work")
    trainer.train({"task": ROWS * EPOCHS}, lambda progress: None)
    trainer.export("task", folder / "alone" / "out")
    name = "adapter_model.safetensors"
    assert (folder / "out" / name).read_bytes() == (folder / "alone" / "out" / name).read_bytes()


def test_a_node_that_loses_its_power_goes_on_where_it_was_when_it_is_back(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def cut_power(at_work: AtWork) -> None:
        nodes.tell("kill", "alpha")
        assert "'auctune:alpha' is in the cluster" in at_work.heard.wait_for(Lost).how
        assert at_work.heard.wait_for(NotCompleted).why == "the node is lost"
        nodes.tell("start", "alpha")
        at_work.heard.wait_for(Recovered)
        at_work.executor.train(2, "alpha", [at_work.order], time.time() + 600)

    train_disturbed(nodes, tiny_cache, tmp_path, cut_power)


def test_a_new_head_and_all_nodes_anew_lose_nothing(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def restart(at_work: AtWork) -> None:
        nodes.tell("head")

    # Nodes need longer to come back than a node may be missing.
    params = replace(QUICK, max_exits=100)
    train_disturbed(nodes, tiny_cache, tmp_path, restart, params, missing_seconds=120.0)


def test_a_driver_killed_while_nodes_train_is_replaced(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def kill(at_work: AtWork) -> None:
        pid = at_work.last(Started).pid
        os.kill(agent_of(), signal.SIGKILL)
        assert at_work.heard.wait_for(Ended).how == "lost its agent on the cluster"
        at_work.heard.wait_for(NodeReady)
        # Whoever trained before is gone before another may begin.
        assert not living([pid])

    train_disturbed(nodes, tiny_cache, tmp_path, kill)


def test_a_node_that_is_cut_off_has_ended_when_its_tasks_go_on(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def cut_off(at_work: AtWork) -> None:
        pid = at_work.last(Started).pid
        os.kill(pid, signal.SIGSTOP)
        assert "did not answer for" in at_work.heard.wait_for(Ended).how
        os.kill(pid, signal.SIGCONT)
        at_work.heard.wait_for(NodeReady)
        assert not living([pid])

    train_disturbed(nodes, tiny_cache, tmp_path, cut_off)


def test_a_base_is_learned_where_its_node_is(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    settings = NodeSettings("tiny", str(tiny_cache))
    where, kept = RayExecutorFactory(nodes.address, {"gamma": "auctune:beta"}), tmp_path / "kept"
    with where.probe("gamma", settings, tmp_path / "work") as start:
        assert start is not None
        facts = learn_base(settings, kept, elsewhere=Elsewhere("gamma", start))
    assert facts.digest == load_base("tiny", cache=tiny_cache).digest
    # Files here say nothing of what was measured there.
    assert sorted(path.name.partition("-")[0] for path in kept.iterdir()) == [
        "elsewhere",
        "profile",
    ]
