"""A job that rests between its slots ends where it would have ended without a rest."""

import copy
import gc
import json
import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from auctune.domain.errors import CheckpointError
from auctune.files.atomic import remove_folder
from auctune.train import checkpoint
from auctune.train.base import Base
from auctune.train.checkpoint import Checkpoint, load_latest, save_checkpoint
from auctune.train.job import LoraJob, Progress
from auctune.train.trainer import MultiLoraTrainer
from support.small_bases import build_base, write_rows

ROWS, EPOCHS = 11, 3
MIDDLE = 17  # in the second batch of the second epoch
PARTS = ("adapter", "exp_avg", "exp_avg_sq", "gradient")
RTOL, ATOL = 2e-4, 2e-5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp("gpt2"), "gpt2")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> LoraJob:
    folder = tmp_path_factory.mktemp("data")
    return LoraJob(
        id="job",
        data=write_rows(folder / "data.jsonl", ROWS, seed=1),
        epochs=EPOCHS,
        rank=4,
        dropout=0.2,
        learning_rate=3e-3,
        weight_decay=0.1,
        schedule="cosine",
        warmup_steps=2,
        batch_size=4,
        max_length=24,
        seed=5,
        validation=write_rows(folder / "validation.jsonl", 3, seed=2),
    )


@pytest.fixture(scope="module")
def whole(base: Base, job: LoraJob, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("whole")
    trainer = MultiLoraTrainer(base, mode="exact")
    trainer.load(job, folder)
    return finish(trainer, job, folder)


def ignore(progress: Progress) -> None:
    """A report that nobody reads."""


def finish(trainer: MultiLoraTrainer, job: LoraJob, folder: Path) -> Checkpoint:
    """Train to the end; returns all that there is to know of the job then."""
    trainer.train({job.id: 10**6}, ignore)
    trainer.save(job.id, 99)
    return read(folder)


def read(folder: Path) -> Checkpoint:
    found = load_latest(folder / "checkpoints")
    assert found is not None
    return found[0]


def suspend(
    base: Base, job: LoraJob, folder: Path, rows: int = MIDDLE, **options: Any
) -> Checkpoint:
    trainer = MultiLoraTrainer(base, **({"mode": "exact"} | options))
    trainer.load(job, folder)
    trainer.train({job.id: rows}, ignore)
    trainer.save(job.id, 1)
    return read(folder)


def resume(base: Base, job: LoraJob, folder: Path, **options: Any) -> Checkpoint:
    trainer = MultiLoraTrainer(base, **({"mode": "exact"} | options))
    trainer.load(job, folder)
    return finish(trainer, job, folder)


@pytest.fixture(scope="module")
def fresh(base: Base, job: LoraJob, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return suspend(base, job, tmp_path_factory.mktemp("fresh"), 0)


@pytest.fixture(scope="module")
def middle(base: Base, job: LoraJob, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return suspend(base, job, tmp_path_factory.mktemp("middle"))


def is_same(one: Checkpoint, other: Checkpoint) -> bool:
    return (
        one.state == other.state
        and one.tensors.keys() == other.tensors.keys()
        and all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    )


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 11, 15, 32, 33])
def test_exact_mode_goes_on_bit_for_bit(
    base: Base, job: LoraJob, whole: Checkpoint, tmp_path: Path, rows: int
) -> None:
    suspend(base, job, tmp_path, rows)
    assert is_same(resume(base, job, tmp_path), whole)


@pytest.mark.parametrize("rows", [15, MIDDLE, 33])
def test_a_checkpoint_of_the_format_before_goes_on_bit_for_bit(
    base: Base, job: LoraJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Format 7 had a tensor for each parameter, of the gradient, the best and kept epochs too."""
    patient = replace(job, patience=2)
    whole = suspend(base, patient, tmp_path / "whole", 10**6)
    found = suspend(base, patient, tmp_path, rows)
    shapes = [(name, shape) for name, shape in found.state.pop("parameters")]
    sizes = [math.prod(shape) for _, shape in shapes]
    tensors = {
        f"{part}/{name}": piece.view(shape)
        for part, flat in found.tensors.items()
        for (name, shape), piece in zip(shapes, torch.split(flat, sizes), strict=True)
    }
    assert any(name.startswith("best/") for name in tensors)
    remove_folder(tmp_path / "checkpoints")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 7)
        save_checkpoint(tmp_path / "checkpoints", 1, Checkpoint(tensors, found.state))
    assert is_same(resume(base, patient, tmp_path), whole)


def test_a_job_that_is_unloaded_is_out_of_memory_at_once(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    trainer = MultiLoraTrainer(base)
    gc.disable()
    try:
        trainer.load(job, tmp_path)
        task = weakref.ref(trainer.task(job.id))
        values = weakref.ref(trainer.task(job.id).weights.values)
        trainer.unload(job.id)
        assert task() is None
        assert values() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_exact_mode_goes_on_bit_for_bit_after_many_rests_in_changing_company(
    base: Base, job: LoraJob, whole: Checkpoint, tmp_path: Path
) -> None:
    for number, rows in enumerate((3, 9, 16, 27)):
        trainer = MultiLoraTrainer(base, mode="exact")
        others = [replace(job, id=f"other-{n}", seed=n, rank=1 + n) for n in range(number)]
        for one in (*others, job):
            trainer.load(one, tmp_path / one.id)
        trainer.train({job.id: rows, **{other.id: 4 + number for other in others}}, ignore)
        trainer.save(job.id, number)
    assert is_same(resume(base, job, tmp_path / job.id), whole)


def test_a_freshly_loaded_base_goes_on_bit_for_bit(
    base: Base,
    job: LoraJob,
    whole: Checkpoint,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    suspend(base, job, tmp_path)
    again = build_base(tmp_path_factory.mktemp("again"), "gpt2")
    assert is_same(resume(again, job, tmp_path), whole)


@pytest.mark.parametrize("rows", [4, MIDDLE])
def test_fused_mode_goes_on_but_for_rounding(
    base: Base, job: LoraJob, whole: Checkpoint, tmp_path: Path, rows: int
) -> None:
    suspend(base, job, tmp_path, rows, mode="fused")
    resumed = resume(base, job, tmp_path, mode="fused")
    for name, tensor in whole.tensors.items():
        torch.testing.assert_close(resumed.tensors[name], tensor, rtol=RTOL, atol=ATOL)
    for entry, expected in zip(resumed.state["curve"], whole.state["curve"], strict=True):
        assert entry == pytest.approx(expected, rel=1e-4)


def test_the_kept_state_is_the_one_that_these_tests_know(middle: Checkpoint) -> None:
    assert {name.split("/")[0] for name in middle.tensors} == set(PARTS)
    assert set(middle.state) == {*RESET_TO_FRESH, *ENDED_ONLY, *REFUSED_IF_OTHER, *WARNED_OF}


# What a resumed job takes from its checkpoint, and would get wrong without it.
RESET_TO_FRESH = (
    "cursor", "steps", "tokens", "batch_tokens", "batch_sums", "curve", "validation",
)  # fmt: skip
ENDED_ONLY = ("state", "note")
REFUSED_IF_OTHER = ("base_digest", "data_digest", "job", "parameters")
WARNED_OF = ("versions", "mode")


@pytest.mark.slow
@pytest.mark.parametrize("part", [*PARTS, *RESET_TO_FRESH])
def test_leaving_out_a_part_of_the_state_changes_the_end(
    base: Base,
    job: LoraJob,
    whole: Checkpoint,
    fresh: Checkpoint,
    middle: Checkpoint,
    tmp_path: Path,
    part: str,
) -> None:
    lacking = copy.deepcopy(middle)
    put_back(lacking, fresh, part)
    save_checkpoint(tmp_path / "checkpoints", 2, lacking)
    assert not is_same(resume(base, job, tmp_path), whole)


@pytest.mark.slow
@pytest.mark.parametrize("part", ENDED_ONLY)
def test_leaving_out_how_a_job_ended_changes_how_it_stands(
    base: Base, job: LoraJob, tmp_path: Path, part: str
) -> None:
    impatient = replace(job, patience=1, learning_rate=0.5, epochs=9)
    fresh = suspend(base, impatient, tmp_path / "fresh", 0)
    ended = suspend(base, impatient, tmp_path / "ended", 10**6)
    assert ended.state["state"] == "done"
    assert ended.state["cursor"]["done"] < 9 * ROWS
    assert is_same(resume(base, impatient, tmp_path / "ended"), ended)
    lacking = copy.deepcopy(ended)
    put_back(lacking, fresh, part)
    save_checkpoint(tmp_path / "ended" / "checkpoints", 100, lacking)
    trainer = MultiLoraTrainer(base, mode="exact")
    trainer.load(impatient, tmp_path / "ended")
    trainer.train({job.id: 10**6}, ignore)
    trainer.save(job.id, 101)
    assert not is_same(read(tmp_path / "ended"), ended)


def put_back(checkpoint: Checkpoint, fresh: Checkpoint, part: str) -> None:
    """Give a part the value that it has in a new job."""
    if part in PARTS:
        assert not torch.equal(checkpoint.tensors[part], fresh.tensors[part])
        checkpoint.tensors[part] = fresh.tensors[part]
    else:
        assert checkpoint.state[part] != fresh.state[part]
        checkpoint.state[part] = fresh.state[part]


@pytest.mark.slow
def test_a_checkpoint_that_lacks_a_part_is_refused(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    whole = suspend(base, job, tmp_path)
    parts = [*PARTS, *RESET_TO_FRESH, *ENDED_ONLY, *REFUSED_IF_OTHER, *WARNED_OF]
    for number, part in enumerate(parts, start=2):
        tensors = {n: one for n, one in whole.tensors.items() if n != part}
        state = {name: value for name, value in whole.state.items() if name != part}
        save_checkpoint(tmp_path / "checkpoints", number, Checkpoint(tensors, state))
        trainer = MultiLoraTrainer(base, mode="exact")
        with pytest.raises(CheckpointError, match=part):
            trainer.load(job, tmp_path)
        assert not trainer.adapted.adapters


def other_base(base: Base, job: LoraJob, folder: Path) -> tuple[Base, LoraJob]:
    return build_base(folder / "other", "gpt2", seed=1), job


def other_rank(base: Base, job: LoraJob, folder: Path) -> tuple[Base, LoraJob]:
    return base, replace(job, rank=5)


def other_rate(base: Base, job: LoraJob, folder: Path) -> tuple[Base, LoraJob]:
    return base, replace(job, learning_rate=1e-4)


def other_data(base: Base, job: LoraJob, folder: Path) -> tuple[Base, LoraJob]:
    return base, replace(job, data=write_rows(folder / "other.jsonl", ROWS, seed=8))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_base, "base_digest"),
        (other_rank, "job.rank"),
        (other_rate, "job.learning_rate"),
        (other_data, "data_digest"),
    ],
    ids=["base", "rank", "rate", "data"],
)
def test_a_checkpoint_of_something_else_is_refused_by_name(
    base: Base,
    job: LoraJob,
    tmp_path: Path,
    change: Callable[[Base, LoraJob, Path], tuple[Base, LoraJob]],
    named: str,
) -> None:
    suspend(base, job, tmp_path)
    changed_base, changed_job = change(base, job, tmp_path)
    with pytest.raises(CheckpointError, match=named):
        MultiLoraTrainer(changed_base, mode="exact").load(changed_job, tmp_path)


def test_data_may_move_and_patience_change(base: Base, job: LoraJob, tmp_path: Path) -> None:
    suspend(base, job, tmp_path)
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(job.data.read_bytes())
    loaded = MultiLoraTrainer(base, mode="exact").load(
        replace(job, data=moved, patience=3), tmp_path
    )
    # Eleven rows and three of validation, three times.
    assert (loaded.done_rows, loaded.total_rows, loaded.warnings) == (MIDDLE, 42, ())


def test_other_versions_and_modes_are_warned_of(base: Base, job: LoraJob, tmp_path: Path) -> None:
    checkpoint = suspend(base, job, tmp_path)
    checkpoint.state["versions"]["torch"] = "1.0"
    save_checkpoint(tmp_path / "checkpoints", 2, checkpoint)
    warnings = MultiLoraTrainer(base, mode="fused").load(job, tmp_path).warnings
    assert len(warnings) == 2
    assert "torch 1.0" in warnings[0]
    assert "fused" in warnings[1]


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(
    base: Base, job: LoraJob, whole: Checkpoint, tmp_path: Path
) -> None:
    suspend(base, job, tmp_path)
    trainer = MultiLoraTrainer(base, mode="exact")
    trainer.load(job, tmp_path)
    trainer.train({job.id: 20}, ignore)
    state = trainer.save(job.id, 2) / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"steps": 0}))
    again = MultiLoraTrainer(base, mode="exact")
    loaded = again.load(job, tmp_path)
    assert loaded.done_rows == MIDDLE
    assert "checkpoint 2:" in loaded.warnings[0]
    assert is_same(finish(again, job, tmp_path), whole)
