"""The trainer on a fake CUDA device: where each tensor is, and of what type."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch
from peft import LoraConfig, PeftModel
from torch.utils._python_dispatch import TorchDispatchMode

from auctune.domain.errors import InputError
from auctune.train import export
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.multilora import backends
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batching import MicroBatch, TokenBudgetBatcher
from auctune.train.task_state import capture_state, restore_state
from auctune.train.trainer import MultiLoraTrainer
from support.fake_cuda import CUDA, fake_base, fake_cuda, launched
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


def _load(
    trainer: MultiLoraTrainer,
    folder: Path,
    ranks: tuple[int, ...],
    *,
    rows: int = 4,
    **options: Any,
) -> None:
    folder.mkdir(exist_ok=True)
    for number, rank in enumerate(ranks):
        data = write_rows(folder / f"{number}.jsonl", rows, seed=number)
        job = LoraJob(f"job-{number}", data, rank=rank, batch_size=rows, epochs=1, **options)
        trainer.load(job, folder / job.id)


def _plain_peft(base: Base, folder: Path) -> PeftModel:
    return PeftModel(base.fresh_model(), LoraConfig.from_pretrained(str(folder)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(
    ("family", "dtype", "options", "backend"),
    [
        ("llama", torch.bfloat16, {"checkpointing": 1}, "triton"),
        ("llama", torch.bfloat16, {"checkpointing": 1, "backend": "grouped"}, "grouped"),
        ("gpt2", torch.float32, {"mode": "exact", "backend": "bmm"}, "bmm"),
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
    trainer = MultiLoraTrainer(fake_base(), backend="grouped")
    _load(trainer, tmp_path, (8, 8))
    with _Operations() as operations:
        trainer.train({"job-0": 4, "job-1": 4}, lambda _: None)
    assert operations.counts["_grouped_mm"]
    assert not operations.counts["constant_pad_nd"]


def _chosen(capability: tuple[int, int]) -> str:
    with fake_cuda(capability):
        return choose_backend("auto", CUDA, torch.bfloat16).name


def test_kernels_of_triton_are_chosen_where_they_run() -> None:
    assert _chosen((7, 5)) == "bmm"
    assert {_chosen(newer) for newer in ((8, 0), (8, 9), (9, 0), (12, 0))} == {"triton"}
    with fake_cuda((7, 5)), pytest.raises(InputError, match=r"need 8\.0"):
        choose_backend("triton", CUDA, torch.bfloat16)


def test_without_triton_grouped_products_are_chosen_where_torch_has_their_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda _: None)
    names = {one: _chosen(one) for one in ((8, 0), (8, 9), (9, 0), (10, 3), (12, 0))}
    assert [one for one, name in names.items() if name == "grouped"] == [(9, 0), (10, 3)]
    assert set(names.values()) == {"grouped", "bmm"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bmm", "grouped"])
def test_matrices_of_more_jobs_are_gathered_in_as_many_launches(
    tmp_path: Path, backend: str
) -> None:
    counts = []
    for ranks in ((8, 8), (8, 8, 8, 8)):
        trainer = MultiLoraTrainer(fake_base(), backend=backend)
        _load(trainer, tmp_path, ranks)
        batch = _batch(trainer, rows=1)
        with _Operations() as operations:
            trainer.loop.step.evaluate(batch)
        counts.append(operations.counts)
    copies = ("_foreach_copy_", "_to_copy", "stack", "cat")
    assert [counts[0][name] for name in copies] == [counts[1][name] for name in copies]
    # A and B of the seven projections of two layers; and the values, to the type of passes.
    assert counts[1]["_foreach_copy_"] == 28 + 1


# Operations that launch nothing: they make views or memory.
VIEWS = {
    *("_unsafe_view", "as_strided", "detach", "empty", "empty_like", "empty_strided", "expand"),
    *("lift_fresh", "new_empty", "permute", "select", "slice", "split", "squeeze", "t"),
    *("transpose", "unsqueeze", "view"),
}
# Operations that wait for values of the device.
WAITS = {"_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero"}


class _Pass(_Operations):  # type: ignore[no-untyped-call]
    """Counts launches of a pass, and notes what waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = super().__torch_dispatch__(func, types, args, kwargs)
        name = func.overloadpacket.__name__
        inputs = [one for one in args if isinstance(one, torch.Tensor)]
        moves = isinstance(found, torch.Tensor) and any(
            one.device != found.device for one in inputs
        )
        is_asynchronous = (kwargs or {}).get("non_blocking") or (len(args) > 2 and args[2] is True)
        if name in WAITS or (moves and not is_asynchronous and inputs[0].dim()):
            self.waits.append(name)
        return found

    @property
    def num_launches(self) -> int:
        # Such a gradient is written among zeros.
        twice = self.counts["slice_backward"] + self.counts["select_backward"]
        operations = sum(count for name, count in self.counts.items() if name not in VIEWS)
        return operations + twice + len(launched)


def _batch(trainer: MultiLoraTrainer, rows: int) -> MicroBatch:
    """Return a micro-batch of some rows of each loaded job."""
    tasks = [trainer.task(job) for job in sorted(trainer.loaded)]
    found = [row for task in tasks for row in task.rows.take(rows)]
    (batch,) = TokenBudgetBatcher(10**6, is_packed=trainer.loop.step.is_packed).split(found)
    return batch


def test_a_pass_over_eight_adapters_takes_few_launches_and_waits_for_nothing(
    tmp_path: Path,
) -> None:
    trainer = MultiLoraTrainer(fake_base(num_layers=16))
    _load(trainer, tmp_path, (4, 8, 16, 16, 32, 32, 64, 64), dropout=0.1)
    batch = _batch(trainer, rows=1)
    trainer.loop.step.train(batch)
    launched.clear()
    with _Pass() as operations:
        trainer.loop.step.train(batch)
    assert trainer.adapted.backend.name == "triton"
    assert operations.num_launches <= 2000
    assert operations.waits == []
    assert not cast(Mock, torch.cuda.synchronize).called


def test_python_calls_of_a_pass_do_not_depend_on_the_number_of_adapters(tmp_path: Path) -> None:
    counts = []
    for num_adapters in (1, 2, 8):
        trainer = MultiLoraTrainer(fake_base())
        _load(trainer, tmp_path / str(num_adapters), (8,) * num_adapters, rows=8, dropout=0.1)
        batch = _batch(trainer, rows=8 // num_adapters)
        trainer.loop.step.train(batch)
        counts.append(_python_calls(partial(trainer.loop.step.train, batch)))
    assert counts[0] == counts[1] == counts[2]


def _python_calls(action: Callable[[], object]) -> Counter[str]:
    """Return the calls of functions of auctune and of the model, by name."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and ("/auctune/" in file or "/transformers/" in file):
            counts[f"{Path(file).name}:{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counts
