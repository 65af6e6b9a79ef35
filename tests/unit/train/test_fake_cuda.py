"""The trainer on a fake CUDA device: where each tensor is, and of what type."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch
from peft import LoraConfig, PeftModel
from torch.utils._python_dispatch import TorchDispatchMode

from auctune.train import export
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batching import TokenBudgetBatcher
from auctune.train.task_state import capture_state, restore_state
from auctune.train.trainer import MultiLoraTrainer
from support.fake_cuda import CUDA, fake_base, fake_cuda
from support.small_bases import write_rows


@pytest.fixture(autouse=True)
def _fake() -> Iterator[None]:
    with fake_cuda():
        yield


class _Operations(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def _load(trainer: MultiLoraTrainer, folder: Path, ranks: tuple[int, ...], **options: Any) -> None:
    for number, rank in enumerate(ranks):
        data = write_rows(folder / f"{number}.jsonl", 4, seed=number)
        job = LoraJob(f"job-{number}", data, rank=rank, batch_size=4, epochs=1, **options)
        trainer.load(job, folder / job.id)


def _plain_peft(base: Base, folder: Path) -> PeftModel:
    return PeftModel(base.fresh_model(), LoraConfig.from_pretrained(str(folder)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(
    ("family", "dtype", "options", "backend"),
    [
        ("llama", torch.bfloat16, {"checkpointing": 1}, "grouped"),
        ("gpt2", torch.float32, {"mode": "exact"}, "bmm"),
    ],
)
def test_jobs_are_trained_kept_and_exported_on_the_device_of_their_base(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    family: str,
    dtype: torch.dtype,
    options: dict[str, Any],
    backend: str,
) -> None:
    # What is written has no values; PEFT's own loading of files is not what is tested.
    monkeypatch.setattr(export, "save_file", lambda contents, path, metadata: path.touch())
    monkeypatch.setattr(export, "load_adapter", _plain_peft)
    trainer = MultiLoraTrainer(fake_base(family, dtype), **options)
    _load(trainer, tmp_path, (3, 8), dropout=0.1)
    ended = trainer.train({"job-0": 4, "job-1": 4}, lambda _: None)
    assert [progress.state for progress in ended.values()] == ["done", "done"]
    assert trainer.adapted.backend.name == backend
    assert trainer.loop.step._head_alone
    for name in ended:
        task = trainer.task(name)
        restore_state(task, capture_state(task, "digest", "fused"), "digest", "fused")
        kept = (task.weights.values, task.weights.gradients, *task.optimizer.moments.values())
        assert {(tensor.device, tensor.dtype) for tensor in kept} == {(CUDA, torch.float32)}
        assert trainer.export(name, tmp_path / "adapter").num_rows == 4


class _Rounds:
    """A time budget of small rounds; counts waits for the device in each."""

    def __init__(self) -> None:
        self.synchronize = cast(Mock, torch.cuda.synchronize)
        self.waits: list[int] = []

    def max_rows(self) -> int:
        self.synchronize.reset_mock()
        return 3

    def record(self, rows: float) -> None:
        self.waits.append(self.synchronize.call_count)


def test_the_time_of_a_round_is_recorded_once_the_device_has_ended_it(tmp_path: Path) -> None:
    trainer, rounds = MultiLoraTrainer(fake_base()), _Rounds()
    _load(trainer, tmp_path, (4,))
    trainer.train({"job-0": 4}, lambda _: None, rounds)
    assert rounds.waits == [1, 1]


def test_tensors_of_two_devices_do_not_meet() -> None:
    with pytest.raises(RuntimeError, match="two devices"):
        torch.ones(3, device=CUDA) + torch.ones(3)


@pytest.mark.slow
def test_inputs_that_are_aligned_are_not_copied(tmp_path: Path) -> None:
    trainer = MultiLoraTrainer(fake_base())
    _load(trainer, tmp_path, (8, 8))
    with _Operations() as operations:
        trainer.train({"job-0": 4, "job-1": 4}, lambda _: None)
    assert operations.counts["_grouped_mm"]
    assert not operations.counts["constant_pad_nd"]


def test_grouped_products_are_chosen_where_torch_has_their_kernel() -> None:
    names = {}
    for capability in ((8, 0), (8, 9), (9, 0), (10, 3), (12, 0)):
        with fake_cuda(capability):
            names[capability] = choose_backend("auto", CUDA, torch.bfloat16).name
    grouped = [capability for capability, name in names.items() if name == "grouped"]
    assert grouped == [(9, 0), (10, 3)]
    assert set(names.values()) == {"grouped", "bmm"}


@pytest.mark.slow
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_matrices_of_more_jobs_are_gathered_in_as_many_launches(
    tmp_path: Path, capability: tuple[int, int]
) -> None:
    counts = []
    for ranks in ((8, 8), (8, 8, 8, 8)):
        with fake_cuda(capability):
            trainer = MultiLoraTrainer(fake_base())
            _load(trainer, tmp_path, ranks)
            tasks = [trainer.task(f"job-{number}") for number in range(len(ranks))]
            rows = [row for task in tasks for row in task.rows.take(1)]
            (batch,) = TokenBudgetBatcher(10**6, is_packed=trainer.loop.step.is_packed).split(rows)
            with _Operations() as operations:
                trainer.loop.step.evaluate(batch)
            counts.append(operations.counts)
    copies = ("_foreach_copy_", "_to_copy", "stack", "cat")
    assert [counts[0][name] for name in copies] == [counts[1][name] for name in copies]
    # A and B of the seven projections of two layers.
    assert counts[1]["_foreach_copy_"] == 28
