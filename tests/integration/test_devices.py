"""Several devices of a node: processes on this CPU that share out each round's rows."""

import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed

from auctune.domain import InputError
from auctune.engine.messages.base import Failed
from auctune.engine.messages.node import (
    Measure,
    Measured,
    NodeReady,
    Progress,
    TaskQuota,
    TrainSlotRequest,
)
from auctune.engine.runtime import devices
from auctune.engine.runtime.devices import node_devices
from auctune.engine.runtime.local import WorkerProcess, start_node
from auctune.engine.runtime.nodes import NodeSettings
from auctune.files.device_profile import Profile
from auctune.standalone.market import run_market
from auctune.train.base import Base, load_base
from auctune.train.checkpoint import Checkpoint, load_latest
from auctune.train.job import LoraJob
from auctune.train.multilora.batching import MicroBatch
from auctune.train.multilora.device_group import DeviceGroup, DeviceLostError
from auctune.train.trainer import MultiLoraTrainer
from support.market_runs import (
    quiet,
    report_of,
    small_market,
    weights,
    with_change,
    write_market,
)
from support.processes import kill
from support.small_bases import build_base, write_pairs, write_rows
from support.waits import WAIT_SECONDS, poll

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

# Weights in float32, whose gradients are summed in another order.
RTOL, ATOL = 2e-4, 2e-5
BUDGET = 96


@dataclass(frozen=True)
class Node:
    """The devices of a node; this process computes on the first."""

    settings: NodeSettings
    base: Base
    devices: DeviceGroup


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a base."""
    folder = tmp_path_factory.mktemp("base")
    build_base(folder, "llama")
    return folder


def settings_of(folder: Path, num_devices: int) -> NodeSettings:
    return NodeSettings(str(folder), str(folder), num_devices=num_devices)


@contextmanager
def open_node(settings: NodeSettings, lost: list[DeviceLostError] | None = None) -> Iterator[Node]:
    """Lead the devices of a node; a process does so for one node at a time."""
    folder = Path(settings.base)
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    on_lost = ([] if lost is None else lost).append
    load = partial(load_base, settings.base, cache=folder, device=settings.device)
    try:
        with node_devices(settings, on_lost, load) as (base, devices):
            yield Node(settings, base, devices)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=[2, 3])
def node(folder: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    with open_node(settings_of(folder, request.param)) as node:
        yield node


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[LoraJob]:
    """Return jobs of mixed ranks, lengths and batches, one with validation, one with pairs."""
    folder = tmp_path_factory.mktemp("data")
    first = LoraJob(
        id="first",
        data=write_rows(folder / "first.jsonl", 11, seed=1),
        validation=write_rows(folder / "validation.jsonl", 3, seed=2),
        epochs=2,
        rank=4,
        dropout=0.2,
        learning_rate=3e-3,
        batch_size=4,
        max_length=24,
        max_grad_norm=0.5,
        seed=5,
    )
    second = replace(
        first,
        id="second",
        data=write_rows(folder / "second.jsonl", 8, seed=3, longest=5),
        validation=None,
        rank=8,
        batch_size=3,
        seed=7,
    )
    pairs = replace(
        second,
        id="pairs",
        data=write_pairs(folder / "pairs.jsonl", 5, seed=4),
        validation=write_pairs(folder / "more.jsonl", 2, seed=5),
        method="dpo",
        max_length=48,
    )
    return [first, second, pairs]


def make_trainer(base: Base, devices: DeviceGroup | None, **options: Any) -> MultiLoraTrainer:
    return MultiLoraTrainer(base, token_budget=BUDGET, devices=devices, **options)


def train(
    trainer: MultiLoraTrainer,
    jobs: list[LoraJob],
    folder: Path,
    targets: tuple[int, ...] = (10**6,),
    number: int = 1,
) -> dict[str, Checkpoint]:
    """Train jobs from their newest checkpoints, in calls to these targets; return where they are.

    Their checkpoints are written.
    """
    for job in jobs:
        trainer.load(job, folder / job.id)
    for target in targets:
        trainer.train({job.id: target for job in jobs}, lambda progress: None)
    states = {}
    for job in jobs:
        trainer.save(job.id, number)
        found = load_latest(folder / job.id / "checkpoints")
        assert found is not None
        states[job.id] = found[0]
    return states


@pytest.fixture(scope="module")
def alone(
    folder: Path, jobs: list[LoraJob], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Checkpoint]:
    """Return the jobs as one device trains them."""
    trainer = make_trainer(load_base(str(folder), cache=folder), None)
    return train(trainer, jobs, tmp_path_factory.mktemp("alone"))


def assert_close(found: dict[str, Checkpoint], expected: dict[str, Checkpoint]) -> None:
    for job, one in expected.items():
        for name, tensor in one.tensors.items():
            torch.testing.assert_close(found[job].tensors[name], tensor, rtol=RTOL, atol=ATOL)
        for part in ("curve", "validation"):
            assert len(found[job].state[part]) == len(one.state[part])
            for here, there in zip(found[job].state[part], one.state[part], strict=True):
                assert here == pytest.approx(there, rel=1e-3, abs=1e-5)


def is_same(one: dict[str, Checkpoint], other: dict[str, Checkpoint]) -> bool:
    return all(
        found.state == other[job].state
        and all(
            torch.equal(found.tensors[name], other[job].tensors[name]) for name in found.tensors
        )
        for job, found in one.items()
    )


# Tests with devices of their own come before those that share some.


def children(pid: int) -> list[int]:
    """Ids of the processes that a process has started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def is_living(pid: int) -> bool:
    """Return whether a process has not ended; one that nobody has reaped yet has."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


@contextmanager
def training_node(
    folder: Path, tmp_path: Path
) -> Iterator[tuple[WorkerProcess, "queue.SimpleQueue[Any]", int]]:
    """A node's worker in the midst of a slot, its messages, and its second device's process."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    node = start_node(settings_of(folder, 2), inbox.put, log=tmp_path / "node.log")
    try:
        await_message(inbox, NodeReady)
        assert (tmp_path / "node-device-2.log").is_file()
        job = LoraJob("a", write_rows(tmp_path / "a.jsonl", 8, 1), epochs=10**6, batch_size=4)
        quota = TaskQuota(job, tmp_path / "work", 0, 10**6, tmp_path / "adapter")
        node.send(TrainSlotRequest(0, (quota,)))
        await_message(inbox, Progress)
        (device,) = children(node.pid)
        assert is_living(device)
        yield node, inbox, device
    finally:
        node.kill()


def await_message(inbox: "queue.SimpleQueue[Any]", kind: type) -> Any:
    """The next message of a class, or `None`: the end of the worker."""
    while not isinstance(message := inbox.get(timeout=WAIT_SECONDS), kind):
        assert message is not None, "the worker has ended"
        assert not isinstance(message, Failed), message
    return message


def test_devices_end_with_the_worker_of_their_node(folder: Path, tmp_path: Path) -> None:
    with training_node(folder, tmp_path) as (node, _, device):
        kill(node.pid)
        poll(lambda: not is_living(device))


def test_a_node_ends_with_one_of_its_devices(folder: Path, tmp_path: Path) -> None:
    with training_node(folder, tmp_path) as (node, inbox, device):
        kill(device)
        await_message(inbox, type(None))
        reason = node.exit_reason()
        assert reason.endswith("DeviceLostError: device 2 of 2 ended: killed by SIGKILL")


def test_a_node_that_stops_leaves_no_device(folder: Path, tmp_path: Path) -> None:
    with training_node(folder, tmp_path) as (node, _, device):
        node.stop()
        assert node.exit_reason() == "exit code 0"
        poll(lambda: not is_living(device))


def test_the_speed_and_memory_of_several_devices_are_measured_together(folder: Path) -> None:
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    node = start_node(replace(settings_of(folder, 2), measure_seconds=2.0), inbox.put)
    try:
        ready = await_message(inbox, NodeReady)
        node.send(Measure())
        profile = Profile.from_json(await_message(inbox, Measured).profile, "profile")
    finally:
        node.stop()
    assert profile.origin.num_devices == 2
    assert profile.origin.key == ready.origin
    assert all(point.tokens % 2 == 0 for point in profile.sweep)
    # Each process holds the base in the memory that they share.
    assert profile.memory_gb < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2e9


STUCK = """
import threading
from auctune.engine import measure
from auctune.train.multilora.device_group import DeviceLostError

measure._STUCK_SECONDS = 0.0
with measure._exit_if_stuck() as on_lost:
    on_lost(DeviceLostError("device 2 of 2 ended: killed by SIGKILL"))
    threading.Event().wait()
"""


def test_a_measurement_that_waits_for_a_process_that_has_ended_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 1
    assert done.stderr == "auctune: device 2 of 2 ended: killed by SIGKILL\n"


def test_a_device_whose_process_ends_is_named(
    folder: Path, jobs: list[LoraJob], tmp_path: Path
) -> None:
    lost: list[DeviceLostError] = []
    with open_node(settings_of(folder, 2), lost) as node:
        trainer = make_trainer(node.base, node.devices)
        trainer.load(jobs[0], tmp_path)
        (pid,) = node.devices._followers.pids  # type: ignore[union-attr]
        kill(pid)
        with pytest.raises(DeviceLostError, match=r"^device 2 of 2 ended: killed by SIGKILL$"):
            trainer.train({jobs[0].id: 10**6}, lambda progress: None)
    assert [str(error) for error in lost] == ["device 2 of 2 ended: killed by SIGKILL"]


def test_a_device_that_cannot_be_used_is_refused_by_its_own_words(folder: Path) -> None:
    lost: list[DeviceLostError] = []
    with (
        pytest.raises(InputError, match=r"^backend: "),
        open_node(replace(settings_of(folder, 2), backend="grouped"), lost),
    ):
        pass
    assert not lost


def test_memory_that_runs_out_on_another_device_makes_passes_smaller_and_refuses_a_large_adapter(
    folder: Path,
    jobs: list[LoraJob],
    alone: dict[str, Checkpoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "DEVICE_WORKER", "support.cramped_device")
    with open_node(settings_of(folder, 2)) as node:
        trainer = make_trainer(node.base, node.devices)
        large = replace(jobs[0], id="large", rank=16)
        with pytest.raises(MemoryError, match="a device of the node has no room for the adapter"):
            trainer.load(large, tmp_path / "large")
        assert not trainer.loaded
        found = train(trainer, jobs[:2], tmp_path)
        assert trainer.budget is not None
        assert trainer.budget < BUDGET
    assert_close(found, {job.id: alone[job.id] for job in jobs[:2]})


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs")
def test_two_gpus_train_what_one_does(folder: Path, jobs: list[LoraJob], tmp_path: Path) -> None:
    with open_node(replace(settings_of(folder, 2), device="cuda")) as node:
        two = train(make_trainer(node.base, node.devices), jobs[:2], tmp_path / "two")
        one = train(make_trainer(node.base, None), jobs[:2], tmp_path / "one")
    for job, state in one.items():
        found, expected = two[job].tensors["adapter"], state.tensors["adapter"]
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)


def test_a_market_trains_on_a_node_of_several_devices(in_cache: Path, tmp_path: Path) -> None:
    adapters = {}
    for num_devices in (1, 2):
        place = tmp_path / f"{num_devices}"
        table = with_change(("nodes",), small_market()["nodes"][:1])
        table = with_change(("bids",), table["bids"][:2], table)
        table = with_change(("node_types", "slow", "devices"), num_devices, table)
        market = write_market(place, table)
        profile = json.loads((place / "slow.json").read_text())
        if num_devices == 2:
            with pytest.raises(InputError, match=r"slow.profile: was measured with devices = 1"):
                run_market(market, place / "out", quiet())
        profile["origin"]["num_devices"] = num_devices
        (place / "slow.json").write_text(json.dumps(profile))
        run_market(market, place / "out", quiet())
        assert [task.state for task in report_of(place / "out").tasks] == ["done", "done"]
        adapters[num_devices] = [weights(place / "out", task) for task in ("sums", "mood")]
    for one, two in zip(adapters[1], adapters[2], strict=True):
        torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-4)


def test_several_devices_train_what_one_does_and_again_to_the_bit(
    node: Node, jobs: list[LoraJob], alone: dict[str, Checkpoint], tmp_path: Path
) -> None:
    first = train(make_trainer(node.base, node.devices), jobs, tmp_path / "first")
    assert_close(first, alone)
    again = train(make_trainer(node.base, node.devices), jobs, tmp_path / "again")
    assert is_same(first, again)


def test_a_batch_that_is_cut_between_calls_has_the_gradient_of_all_devices(
    node: Node, jobs: list[LoraJob], alone: dict[str, Checkpoint], tmp_path: Path
) -> None:
    trainer = make_trainer(node.base, node.devices)
    assert_close(train(trainer, jobs, tmp_path, (2, 5, 6, 13, 10**6)), alone)


@pytest.mark.parametrize("starts_alone", [True, False])
def test_a_checkpoint_goes_on_with_another_number_of_devices(
    node: Node,
    jobs: list[LoraJob],
    alone: dict[str, Checkpoint],
    tmp_path: Path,
    starts_alone: bool,
) -> None:
    before, after = (None, node.devices) if starts_alone else (node.devices, None)
    middle = train(make_trainer(node.base, before), jobs, tmp_path, (6,))
    assert any(one.tensors["gradient"].any() for one in middle.values())
    assert_close(train(make_trainer(node.base, after), jobs, tmp_path, number=2), alone)


class CrampedStep:
    """A step for whose device passes of more than some tokens are too large, from time to time.

    The memory of the other devices is enough: what they have added by then does not count.
    """

    def __init__(self, step: Any, limit: int) -> None:
        self._step, self._limit = step, limit
        self.num_failures = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def train(self, batch: MicroBatch) -> dict[str, Tensor]:
        if batch.num_tokens > self._limit:
            self.num_failures += 1
            raise torch.OutOfMemoryError("CUDA out of memory")
        found: dict[str, Tensor] = self._step.train(batch)
        return found


def test_memory_that_runs_out_on_the_first_device_makes_passes_smaller(
    node: Node, jobs: list[LoraJob], alone: dict[str, Checkpoint], tmp_path: Path
) -> None:
    trainer = make_trainer(node.base, node.devices)
    trainer.loop.step = step = CrampedStep(trainer.loop.step, limit=25)  # type: ignore[assignment]
    found = train(trainer, jobs[:2], tmp_path)
    assert step.num_failures
    assert trainer.budget is not None
    assert trainer.budget < BUDGET
    assert_close(found, {job.id: alone[job.id] for job in jobs[:2]})


def test_several_devices_are_refused_in_exact_mode(node: Node) -> None:
    with pytest.raises(InputError, match=r"mode: 'exact' on . devices; expected 'fused'"):
        make_trainer(node.base, node.devices, mode="exact")
