"""A node's slot of several tasks, in this process: what is wrong with one is told of that one."""

import os
import queue
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from auctune.engine import unix_time
from auctune.engine.data.examiner import Examiner
from auctune.engine.messages.base import Stop
from auctune.engine.messages.node import (
    NODE_MESSAGES,
    NodeReply,
    NodeRequest,
    Noted,
    TaskQuota,
    Trained,
    TrainSlotRequest,
)
from auctune.engine.runtime.channel import decode, encode
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.unix_time import SteadyClock, since_boot
from auctune.engine.workers.node import NodeWorker, Parent
from auctune.train import checkpoint, tokenized_file
from auctune.train.attempts import begin_attempt
from auctune.train.checkpoint import CHECKPOINTS, Checkpoint, save_checkpoint
from auctune.train.job import LoraJob
from auctune.train.stored_tokens import tokens_folder
from auctune.train.tokenizer import load_tokenizer
from auctune.train.trainer import MultiLoraTrainer
from support.small_bases import build_base, write_rows

OUT_OF_MEMORY = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


@dataclass
class Market:
    """The parent of a node: gives one order, then has it stop."""

    inbox: "queue.SimpleQueue[NodeRequest]" = field(default_factory=queue.SimpleQueue)
    stop_requested: threading.Event = field(default_factory=threading.Event)
    said: list[Any] = field(default_factory=list)

    def send(self, message: NodeReply) -> None:
        self.said.append(decode(encode(message, NODE_MESSAGES.replies), NODE_MESSAGES.replies))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    build_base(folder, "gpt2")
    return folder


def order(folder: Path, name: str) -> TaskQuota:
    folder.mkdir(exist_ok=True)
    data = write_rows(folder / f"{name}.jsonl", 4, seed=1)
    job = LoraJob(id=name, data=data, rank=4, batch_size=2, max_length=24)
    return TaskQuota(job, folder / name, 1, 4, folder / "results" / name)


def train(
    base: Path,
    orders: list[TaskQuota],
    until: float | None = None,
    market: Market | None = None,
) -> Trained:
    """What a node says of a slot with these orders, which ends at `until`."""
    market = market or Market()
    worker = NodeWorker(NodeSettings(str(base), str(base)), cast(Parent, market))
    request = TrainSlotRequest(0, tuple(orders), until, "first")
    market.inbox.put(decode(encode(request, NODE_MESSAGES.requests), NODE_MESSAGES.requests))
    market.inbox.put(Stop())
    worker.run()
    trained = market.said[-1]
    assert isinstance(trained, Trained)
    return trained


def test_an_adapter_that_memory_does_not_hold_ends_its_own_task_alone(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = MultiLoraTrainer.load

    def run_out(trainer: MultiLoraTrainer, job: LoraJob, folder: Path) -> Any:
        if job.id == "large":
            # No machine's addresses reach that far, so that the allocator itself refuses.
            torch.empty(1 << 60, dtype=torch.uint8)
        return load(trainer, job, folder)

    monkeypatch.setattr(MultiLoraTrainer, "load", run_out)
    large, good = order(tmp_path, "large"), order(tmp_path, "good")
    trained = train(base, [large, good])
    assert trained.results["good"].state == "done"
    assert trained.refused["large"].found == "out of memory while loading its adapter"
    assert trained.refused["large"].out_of_memory


def test_memory_that_runs_out_as_an_adapter_is_written_leaves_its_checkpoint_to_go_on_from(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, failures = MultiLoraTrainer.export, ["large"]

    def run_out(trainer: MultiLoraTrainer, job: str, folder: Path) -> Any:
        if job in failures:
            failures.remove(job)
            raise torch.AcceleratorError(OUT_OF_MEMORY)
        return export(trainer, job, folder)

    monkeypatch.setattr(MultiLoraTrainer, "export", run_out)
    large, good = order(tmp_path, "large"), order(tmp_path, "good")
    trained = train(base, [large, good])
    assert trained.results["good"].exported
    assert trained.refused["large"].found == "out of memory while writing its adapter"
    assert trained.refused["large"].out_of_memory

    again = train(base, [large]).results["large"]
    assert (again.rows, again.state, again.exported) == (4, "done", True)
    assert (large.adapter / "adapter_model.safetensors").is_file()


def slots(base: Path, requests: list[TrainSlotRequest]) -> list[Trained]:
    """What one node says of several slots."""
    market = Market()
    worker = NodeWorker(NodeSettings(str(base), str(base), mode="exact"), cast(Parent, market))
    for request in requests:
        market.inbox.put(request)
    market.inbox.put(Stop())
    worker.run()
    return [one for one in market.said if isinstance(one, Trained)]


def note_loads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return what gets the jobs that trainers load, and how many of their rows were trained."""
    loads: list[tuple[str, int]] = []
    load = MultiLoraTrainer.load

    def note(trainer: MultiLoraTrainer, job: LoraJob, folder: Path) -> Any:
        loaded = load(trainer, job, folder)
        loads.append((job.id, loaded.done_rows))
        return loaded

    monkeypatch.setattr(MultiLoraTrainer, "load", note)
    return loads


def test_a_task_stays_loaded_from_slot_to_slot_and_comes_to_the_same_bits(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, weights = note_loads(monkeypatch), []
    for name, stays in (("stays", True), ("goes", False)):
        (tmp_path / name).mkdir()
        one, other = order(tmp_path / name, "one"), order(tmp_path / name, "other")
        between = [one] if stays else [other]
        requests = [
            TrainSlotRequest(0, (replace(one, target=1),)),
            TrainSlotRequest(1, tuple(replace(task, number=2, target=2) for task in between)),
            TrainSlotRequest(2, (replace(one, number=3, target=4),)),
        ]
        loads.clear()
        last = slots(base, requests)[-1].results["one"]
        assert (last.rows, last.state, last.exported) == (4, "done", True)
        expected = ["one"] if stays else ["one", "other", "one"]
        assert [name for name, _ in loads] == expected
        weights.append((one.adapter / "adapter_model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_a_task_that_trained_elsewhere_meanwhile_is_loaded_anew(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = note_loads(monkeypatch)
    task = order(tmp_path, "job")
    market = Market()
    settings = NodeSettings(str(base), str(base), mode="exact")
    worker = NodeWorker(settings, cast(Parent, market))
    worker._handle(TrainSlotRequest(0, (replace(task, target=1),)))
    (elsewhere,) = slots(base, [TrainSlotRequest(1, (replace(task, number=2, target=3),))])
    assert elsewhere.results["job"].rows == 3
    worker._handle(TrainSlotRequest(2, (replace(task, number=3, target=3),)))
    here = market.said[-1]
    assert isinstance(here, Trained)
    assert (here.results["job"].rows, here.results["job"].steps) == (3, 1)
    # From its first row, from the first slot's checkpoint elsewhere, and from that of elsewhere.
    assert [rows for _, rows in loads] == [0, 1, 3]


def test_training_goes_on_while_checkpoints_are_written_and_what_they_hold_is_reported(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, train, is_done = MultiLoraTrainer.snapshot, MultiLoraTrainer.train, threading.Event()

    def slow(trainer: MultiLoraTrainer, job: str, number: int, attempt: int | None) -> Any:
        write = snapshot(trainer, job, number, attempt)

        def write_at_last() -> Path:
            assert is_done.wait(60)
            return write()

        return write_at_last

    def count(trainer: MultiLoraTrainer, *arguments: Any) -> Any:
        progress = train(trainer, *arguments)
        if any(one.rows == 4 for one in progress.values()):
            is_done.set()
        return progress

    monkeypatch.setattr(MultiLoraTrainer, "snapshot", slow)
    monkeypatch.setattr(MultiLoraTrainer, "train", count)
    task = order(tmp_path, "job")
    market = Market()
    worker = NodeWorker(NodeSettings(str(base), str(base), mode="exact"), cast(Parent, market))
    # No time of a slot is left for anything but checkpoints.
    worker._throughput.record_save(1, 1e6)
    worker._throughput.record_round(1, 0.01)
    worker._handle(TrainSlotRequest(0, (task,), unix_time.unix_time() + 3600))
    worker._handle(TrainSlotRequest(1, (replace(task, number=2),)))
    first, second = (one for one in market.said if isinstance(one, Trained))
    assert (first.results["job"].rows, first.results["job"].state) == (0, "training")
    assert (second.results["job"].rows, second.results["job"].state) == (4, "done")
    assert len(second.results["job"].losses) == 2


def test_a_checkpoint_that_is_not_written_has_its_task_loaded_anew(
    base: Path, tmp_path: Path
) -> None:
    task, market = order(tmp_path, "job"), Market()
    worker = NodeWorker(NodeSettings(str(base), str(base), mode="exact"), cast(Parent, market))
    attempt = begin_attempt(task.folder)
    worker._handle(TrainSlotRequest(0, (replace(task, target=1, attempt=attempt),)))
    begin_attempt(task.folder)
    worker._handle(TrainSlotRequest(1, (replace(task, number=2, target=3, attempt=attempt),)))
    _, refused = (one for one in market.said if isinstance(one, Trained))
    assert "replaced" in refused.refused["job"].found
    assert not worker._trainer.loaded


def test_a_task_whose_checkpoint_cannot_be_written_now_costs_no_other_its_slot(
    base: Path, tmp_path: Path
) -> None:
    full, good = order(tmp_path, "full"), order(tmp_path, "good")
    away = order(tmp_path / "elsewhere", "away")
    # As if their disks were full: to make the folders is an error of the system.
    in_their_place = [full.folder / CHECKPOINTS, away.adapter.parent]
    for place in in_their_place:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    market = Market()
    worker = NodeWorker(NodeSettings(str(base), str(base), mode="exact"), cast(Parent, market))
    worker._handle(TrainSlotRequest(0, (full, good, away)))
    for place in in_their_place:
        place.unlink()
    worker._handle(TrainSlotRequest(1, (replace(full, number=2), replace(away, number=2))))
    first, second = (one for one in market.said if isinstance(one, Trained))
    assert first.results["good"].state == "done"
    assert {name: error.unreadable for name, error in first.refused.items()} == {
        "full": True,
        "away": True,
    }
    assert first.refused["full"].found == "a checkpoint cannot be written now (File exists)"
    assert first.refused["away"].found.startswith("its adapter cannot be written now (")
    assert {result.state for result in second.results.values()} == {"done"}


def test_a_node_computes_as_its_settings_say(base: Path) -> None:
    settings = NodeSettings(str(base), str(base), backend="bmm", gradient_checkpointing=1)
    keys = []
    for one in (settings, NodeSettings(str(base), str(base))):
        market = Market()
        worker = NodeWorker(one, cast(Parent, market))
        market.inbox.put(Stop())
        worker.run()
        keys.append(market.said[0].origin)
        step = worker._trainer.loop.step
        assert step.adapted.backend.name == ("bmm" if one is settings else "loop")
        assert step.model.is_activation_checkpointing is (one is settings)
    # A device is measured as it computes.
    assert keys[0] != keys[1]


def test_a_slot_is_trained_while_the_clock_of_the_machine_is_ahead(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The service goes by the time before the clock jumped an hour forward; so do its nodes.
    believed = SteadyClock(120.0, time.time() - since_boot() - 3600.0)
    monkeypatch.setattr(unix_time, "_now", believed)
    trained = train(base, [order(tmp_path, "good")], until=believed() + 600.0)
    assert trained.results["good"].state == "done"


@pytest.mark.parametrize("damage", [False, True], ids=["whole", "torn"])
def test_a_node_trains_alike_from_tokens_that_were_stored_and_from_rows(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bool
) -> None:
    one, other = order(tmp_path, "job"), order(tmp_path / "stored", "job")
    from_rows = train(base, [one]).results["job"]
    tokenizer, context = load_tokenizer(str(base), cache=base)
    Examiner(tokenizer, context).facts(other.job.data, "file", other.job.max_length, store=True)
    if damage:
        (file,) = tokens_folder(other.job.data).iterdir()
        os.truncate(file, file.stat().st_size - 40)
    else:
        # Nothing can be tokenized.
        monkeypatch.setattr(tokenized_file, "tokenize_chunk", None)
    stored = train(base, [other]).results["job"]
    assert stored == from_rows
    adapters = [one.adapter, other.adapter]
    first, second = (path / "adapter_model.safetensors" for path in adapters)
    assert first.read_bytes() == second.read_bytes()


def test_a_task_whose_checkpoint_cannot_be_read_now_keeps_it_and_trains_later(
    base: Path, tmp_path: Path
) -> None:
    away, good = order(tmp_path, "away"), order(tmp_path, "good")
    half = replace(away, target=2)
    assert train(base, [half]).results["away"].rows == 2
    (state,) = away.folder.glob("checkpoints/*/state.json")
    content = state.read_bytes()
    # As if its disk were away: the file is there, and reading it is an error of the system.
    state.unlink()
    state.symlink_to(state)
    trained = train(base, [replace(away, number=2), good])
    assert trained.results["good"].state == "done"
    refused = trained.refused["away"]
    assert refused.unreadable
    assert refused.found.startswith("a checkpoint cannot be read now (Too many levels")
    state.unlink()
    state.write_bytes(content)
    result = train(base, [replace(away, number=2)]).results["away"]
    assert (result.rows, result.steps) == (4, 2)


def test_what_is_said_of_a_checkpoint_names_no_path_of_the_server(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = {name: order(tmp_path, name) for name in ("torn", "gone", "other", "ahead")}
    train(base, [replace(job, target=2) for job in jobs.values()])
    train(base, [replace(jobs["torn"], target=3, number=2)])
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 99)
        save_checkpoint(jobs["other"].folder / CHECKPOINTS, 2, Checkpoint())
    save_checkpoint(jobs["ahead"].folder / CHECKPOINTS, 1, Checkpoint())
    for name in ("torn", "gone"):
        *_, newest = sorted(jobs[name].folder.glob("checkpoints/*/tensors.safetensors"))
        os.truncate(newest, 9)
    market = Market()
    trained = train(base, [replace(job, number=3) for job in jobs.values()], market=market)
    assert trained.refused["other"].found == "checkpoint 2 is of format 99, not 8"
    notes = {one.task: one.text for one in market.said if isinstance(one, Noted)}
    assert notes["torn"].startswith("checkpoint 2: tensors.safetensors has 9 of ")
    assert notes["gone"].startswith("no checkpoint is whole: checkpoint 1: tensors.safetensors has")
    assert notes["gone"].endswith("; trained again from its first row")
    assert "ahead" in trained.refused
    assert str(tmp_path) not in repr(market.said)


def test_a_replaced_worker_neither_saves_nor_deletes_damaged_checkpoints(
    base: Path, tmp_path: Path
) -> None:
    cut_off = order(tmp_path, "job")
    cut_off = replace(cut_off, attempt=begin_attempt(cut_off.folder))
    newest = replace(cut_off, number=2, attempt=begin_attempt(cut_off.folder))
    refused = train(base, [cut_off]).refused["job"]
    assert refused.found == "attempt 1 was replaced by attempt 2"
    assert train(base, [newest]).results["job"].state == "done"
    (state,) = cut_off.folder.glob("checkpoints/*/state.json")
    state.write_bytes(b"{")
    assert "was replaced" in train(base, [cut_off]).refused["job"].found
    assert state.exists()
    assert train(base, [newest]).results["job"].rows == 4
