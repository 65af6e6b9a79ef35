"""Real nodes under an executor: killed, frozen, short of time, and left alone by their market."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from auctune.engine.messages.base import Started
from auctune.engine.messages.node import Ended, NodeReady, Noted, Progress, TaskQuota, Trained
from auctune.engine.runtime.local import LocalLauncher
from auctune.engine.runtime.nodes import NodeSettings, node_workers
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.train.base import load_base
from auctune.train.checkpoint import CHECKPOINTS, load_latest
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.executor_kinds import ExecutorKind
from support.heard import Heard, closing
from support.market_runs import living
from support.small_bases import write_rows
from support.waits import poll

pytest_plugins = ["support.tiny_bases", "support.executor_fixtures"]
pytestmark = pytest.mark.slow

TASKS = ("even", "odd")
ROWS, EPOCHS = 40, 3
SLOTS = 3
# Of a test that waits for progress.
MAX_SLOTS = 20


def make_job(folder: Path, name: str, **changes: object) -> LoraJob:
    job = LoraJob(
        id=name,
        data=write_rows(folder / f"{name}.jsonl", ROWS, seed=len(name), longest=4),
        epochs=EPOCHS,
        rank=4,
        dropout=0.1,
        batch_size=3,
        max_length=32,
        seed=len(name),
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def make_order(folder: Path, job: LoraJob, number: int, target: int) -> TaskQuota:
    return TaskQuota(job, folder / "work" / job.id, number, target, folder / "out" / job.id)


def adapter(folder: Path, name: str) -> bytes:
    return (folder / "out" / name / "adapter_model.safetensors").read_bytes()


def checkpointed(order: TaskQuota) -> int:
    """Rows of a task in its newest checkpoint."""
    found = load_latest(order.folder / CHECKPOINTS)
    return 0 if found is None else found[0].state["cursor"]["done"]


def undisturbed(cache: Path, folder: Path) -> None:
    """Train all tasks in one go, without processes, and export them."""
    trainer = MultiLoraTrainer(load_base("tiny", cache=cache), mode="exact")
    for name in TASKS:
        trainer.load(make_job(folder, name), folder / "work" / name)
    trainer.train(dict.fromkeys(TASKS, ROWS * EPOCHS), lambda progress: None)
    for name in TASKS:
        trainer.export(name, folder / "out" / name)


def test_a_node_killed_and_frozen_within_slots_leaves_the_weights_of_an_undisturbed_run(
    kind: ExecutorKind, tiny_cache: Path, tmp_path: Path
) -> None:
    heard = Heard()
    settings = NodeSettings("tiny", str(tiny_cache), mode="exact")
    params = SupervisorPolicy(heartbeat_seconds=6.0)
    disturbances = [signal.SIGKILL, signal.SIGSTOP]
    with closing(kind.make({"alpha": settings}, heard.hear, policy=params)) as executor:
        for slot in range(SLOTS):
            target = ROWS * EPOCHS * (slot + 1) // SLOTS
            orders = [
                make_order(tmp_path, make_job(tmp_path, name), slot + 1, target) for name in TASKS
            ]
            executor.train(slot, "alpha", orders, until=time.time() + 600)
            if disturbances:
                heard.wait_for(Progress, stale=False)
                os.kill(pid_of(heard), disturbances.pop(0))
                heard.wait_for(Ended)
            answer = heard.wait_for(Trained, stale=False)
            assert answer.refused == {}
            assert {name: task.rows for name, task in answer.results.items()} == (
                dict.fromkeys(TASKS, target)
            )
        assert heard.kinds(without=(Progress,)) == [
            Started, NodeReady, Ended, Started, NodeReady, Trained,
            Ended, Started, NodeReady, Trained, Trained,
        ]  # fmt: skip
    (tmp_path / "whole").mkdir()
    undisturbed(tiny_cache, tmp_path / "whole")
    for name in TASKS:
        assert adapter(tmp_path, name) == adapter(tmp_path / "whole", name)


def pid_of(heard: Heard) -> int:
    pids: list[int] = [m.pid for _, m in heard.messages if isinstance(m, Started)]
    return pids[-1]


def test_a_slot_ends_in_time_with_what_was_trained_and_a_bad_task_alone(
    kind: ExecutorKind, tiny_cache: Path, tmp_path: Path
) -> None:
    heard = Heard()
    settings = NodeSettings("tiny", str(tiny_cache))
    long = make_job(tmp_path, "long", epochs=100_000)
    # A batch that takes far longer than the slot.
    large = make_job(tmp_path, "large", epochs=100_000, batch_size=1_000_000)
    gone = replace(long, id="gone", data=tmp_path / "gone.jsonl")
    with closing(kind.make({"alpha": settings}, heard.hear)) as executor:
        heard.wait_for(NodeReady)
        rows = {"long": 0, "large": 0}
        # On a busy machine a slot may pass before a first batch is done.
        for slot in range(MAX_SLOTS):
            orders = [make_order(tmp_path, job, slot + 1, 10**9) for job in (long, large, gone)]
            until = time.time() + 3.0
            executor.train(slot, "alpha", orders, until)
            answer = heard.wait_for(Trained)
            # A busy machine may hold up a process, but not for as long as a batch here lasts.
            assert answer.saved_at < until + 2.0
            assert answer.refused["gone"].place.endswith("gone.jsonl")
            for order in orders[:2]:
                result = answer.results[order.job.id]
                assert result.state == "training"
                assert result.rows >= rows[order.job.id]
                assert checkpointed(order) == result.rows
                rows[order.job.id] = result.rows
            if slot > 0 and min(rows.values()) > 0:
                break
        assert min(rows.values()) > 0
        last = make_order(tmp_path, long, slot + 2, 10**9)
        executor.train(slot + 1, "alpha", [last], time.time() + 600.0)
        heard.wait_for(Progress, request=f"{slot + 1}/alpha/1")
    # It puts away what it has trained when it is asked to end.
    assert checkpointed(last) > rows["long"]


def test_a_task_whose_data_take_long_to_tokenize_takes_no_slot_from_another(
    tiny_cache: Path, tmp_path: Path
) -> None:
    heard = Heard()
    small = make_job(tmp_path, "small", epochs=100_000)
    large = make_job(tmp_path, "large", epochs=1)
    # Its price counts no more than 32 tokens of each row.
    large.data.write_text(60 * ('{"text": "' + "rain and sun " * 15_000 + '"}\n'))
    settings = {"alpha": NodeSettings("tiny", str(tiny_cache))}
    with closing(Executor(settings, LocalLauncher(node_workers(settings)), heard.hear)) as executor:
        heard.wait_for(NodeReady)
        orders = [make_order(tmp_path, job, 1, 10**9) for job in (large, small)]
        until = time.time() + 3.0
        executor.train(0, "alpha", orders, until)
        assert heard.wait_for(Noted).task == "large"
        answer = heard.wait_for(Trained)
        assert answer.saved_at < until + 2.0
        assert answer.refused == {}
        assert answer.results["small"].rows > 0
        assert "large" not in answer.results
        # It goes on where it stopped, and is trained once it is through.
        last = make_order(tmp_path, large, 2, 10**9)
        executor.train(1, "alpha", [last], time.time() + 600.0)
        assert heard.wait_for(Trained).results["large"].state == "done"


def test_nodes_end_by_themselves_if_their_market_is_killed(
    kind: ExecutorKind, tiny_cache: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "support.executor_market", kind.address]
    market = subprocess.Popen(
        [*program, str(tiny_cache), str(tmp_path / "market")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert market.stdout is not None
    pids, is_ready = [], False
    for line in market.stdout:
        what, pid = line.split()
        if what == "ready":
            is_ready = True
        else:
            pids.append(int(pid))
        if is_ready and len(pids) == 2:
            break
    market.kill()
    market.wait()
    market.stdout.close()
    assert len(pids) == 2
    # One was training-ready, the other perhaps still loading torch.
    poll(lambda: not living(pids))


PARENT_MODULES = (
    "auctune.engine.runtime.ray.launcher",
    "auctune.engine.runtime.local",
    "auctune.engine.data.client",
    "auctune.engine.base_facts",
    "auctune.engine.inference",
    "auctune.engine.market.demand",
)


def test_what_a_service_imports_brings_neither_torch_nor_ray() -> None:
    program = (
        f"import json, sys, {', '.join(PARENT_MODULES)}; "
        "print(json.dumps([n for n in ('torch', 'transformers', 'peft', 'ray') "
        "if n in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert json.loads(found.stdout) == []
