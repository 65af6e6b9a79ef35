"""What only a cluster can do to its nodes: power cuts, a new head, drivers killed and cut off."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.run.child import Message
from auctune.run.executor import KeeperParams, LoraJob, NodeSettings, RayExecutor, RayParams
from auctune.run.executor.cluster.params import mark_of, needs_of
from auctune.run.executor.kept import KeptExecutor
from auctune.run.executor.messages import TaskOrder
from auctune.train.base import load_base
from auctune.train.node import NodeTrainer
from support import scripted_node
from support.executor_kinds import LEASE_SECONDS, NEEDS_RAY
from support.heard import Heard, closing
from support.market_runs import living, poll
from support.ray_nodes import RayNodes
from support.small_bases import write_rows

pytest_plugins = ["support.tiny_bases", "support.executor_fixtures"]
pytestmark = [pytest.mark.slow, NEEDS_RAY]

ROWS, EPOCHS = 40, 6
QUICK = KeeperParams(first_pause=0.1, retry_seconds=0.5)


@dataclass
class AtWork:
    """Nodes under an executor on the cluster, of which one trains."""

    executor: KeptExecutor
    heard: Heard
    order: TaskOrder

    def last(self, kind: str, node: str = "alpha") -> Message:
        """The newest message of a kind."""
        return next(m for n, m in reversed(self.heard.messages) if (n, m["kind"]) == (node, kind))

    def answer(self) -> Message:
        """What comes of the order."""
        return self.heard.wait_for("trained", stale=False)


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def bridge_of() -> int:
    """The bridge that this process has started."""
    for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in child.read_text().split():
            if b"executor.cluster.bridge" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
    raise AssertionError("there is no bridge")


def train_disturbed(
    cluster: RayNodes, cache: Path, folder: Path, disturb: Callable[[AtWork], None]
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
    order = TaskOrder(job, folder / "work" / "task", 1, ROWS * EPOCHS // 2, folder / "out")
    ray = RayParams(cluster.address, lease_seconds=LEASE_SECONDS, missing_seconds=4.0)
    settings = {"alpha": NodeSettings("tiny", str(cache), mode="exact")}
    executor = RayExecutor(settings, folder / "work", heard.hear, ray=ray, params=QUICK)
    with closing(executor):
        executor.start(0, "alpha", [order], time.time() + 600)
        at_work = AtWork(executor, heard, order)
        at_work.answer()
        at_work.order = TaskOrder(job, order.folder, 2, ROWS * EPOCHS, order.adapter)
        executor.start(1, "alpha", [at_work.order], time.time() + 600)
        heard.wait_for("progress", stale=False)
        pid = at_work.last("started")["pid"]
        disturb(at_work)
        answer = at_work.answer()
        assert answer["results"]["task"]["rows"] == ROWS * EPOCHS
        assert not living([pid])
    trainer = NodeTrainer(load_base("tiny", cache=cache), mode="exact")
    trainer.load(job, folder / "alone" / "work")
    trainer.train({"task": ROWS * EPOCHS}, lambda progress: None)
    trainer.export("task", folder / "alone" / "out")
    name = "adapter_model.safetensors"
    assert (folder / "out" / name).read_bytes() == (folder / "alone" / "out" / name).read_bytes()


@pytest.mark.thorough
def test_a_node_that_loses_its_power_goes_on_where_it_was_when_it_is_back(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def cut_power(at_work: AtWork) -> None:
        nodes.tell("kill", "alpha")
        assert "'auctune:alpha' is in the cluster" in at_work.heard.wait_for("lost")["how"]
        assert at_work.heard.wait_for("unanswered")["why"] == "the node is lost"
        nodes.tell("start", "alpha")
        at_work.heard.wait_for("back")
        at_work.executor.start(2, "alpha", [at_work.order], time.time() + 600)

    train_disturbed(nodes, tiny_cache, tmp_path, cut_power)


@pytest.mark.thorough
def test_a_new_head_and_all_nodes_anew_lose_nothing(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def restart(at_work: AtWork) -> None:
        nodes.tell("head")
        at_work.executor.start(2, "alpha", [at_work.order], time.time() + 600)
        at_work.heard.wait_for("ready")
        if at_work.executor is not None and "lost" in at_work.heard.kinds():
            at_work.heard.wait_for("back")
            at_work.executor.start(3, "alpha", [at_work.order], time.time() + 600)

    train_disturbed(nodes, tiny_cache, tmp_path, restart)


@pytest.mark.thorough
def test_a_driver_killed_while_nodes_train_is_replaced(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def kill(at_work: AtWork) -> None:
        pid = at_work.last("started")["pid"]
        os.kill(bridge_of(), signal.SIGKILL)
        assert at_work.heard.wait_for("ended")["how"] == "lost its bridge to the cluster"
        at_work.heard.wait_for("ready")
        # Whoever trained before is gone before another may begin.
        assert not living([pid])

    train_disturbed(nodes, tiny_cache, tmp_path, kill)


@pytest.mark.thorough
def test_a_node_that_is_cut_off_has_ended_when_its_tasks_go_on(
    nodes: RayNodes, tiny_cache: Path, tmp_path: Path
) -> None:
    def cut_off(at_work: AtWork) -> None:
        pid = at_work.last("started")["pid"]
        actor = parent_of(pid)
        os.kill(actor, signal.SIGSTOP)
        assert "was not heard of" in at_work.heard.wait_for("ended")["how"]
        os.kill(actor, signal.SIGCONT)
        at_work.heard.wait_for("ready")
        assert not living([pid])

    train_disturbed(nodes, tiny_cache, tmp_path, cut_off)


def scripted(folder: Path, *words: str) -> NodeSettings:
    folder.mkdir()
    return NodeSettings(json.dumps(words), str(folder))


def test_a_cluster_of_its_own_has_its_lost_node_again(tmp_path: Path) -> None:
    heard = Heard()
    work = tmp_path / "work"
    executor = RayExecutor(
        {"alpha": scripted(tmp_path / "alpha", "good")},
        work,
        heard.hear,
        ray=RayParams(lease_seconds=2.0),
        params=QUICK,
        program=(scripted_node.__file__,),
    )
    with closing(executor):
        pid = heard.wait_for("started")["pid"]
        heard.wait_for("ready")
        raylet = parent_of(parent_of(pid))
        folder = Path(json.loads((work / "ray-cluster.json").read_bytes())["folder"])
        assert folder.is_dir()
        os.kill(raylet, signal.SIGKILL)
        assert heard.wait_for("ended")["endings"] == 1
        assert poll(lambda: not living([pid]))
        job = LoraJob("task", Path("data"))
        executor.start(0, "alpha", [TaskOrder(job, Path("a"), 1, 8, Path("b"))], time.time() + 600)
        assert not heard.wait_for("trained")["stale"]
    assert not folder.exists()


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
