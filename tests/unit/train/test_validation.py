"""Validation is work like training: it ends where a call ends, and goes on in the next one."""

from dataclasses import replace
from pathlib import Path

import pytest

from auctune.numerics.rng import stream
from auctune.train.adapter_files import read_epochs
from auctune.train.base import Base
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob, Progress
from auctune.train.trainer import MultiLoraTrainer
from support.elastic import is_same, new_trainer, train_with
from support.small_bases import build_base, write_rows

ROWS, VALIDATION_ROWS, EPOCHS = 5, 7, 2
TOTAL = EPOCHS * (ROWS + VALIDATION_ROWS)
ALL = 10**9


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp("gpt2"), "gpt2")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> LoraJob:
    folder = tmp_path_factory.mktemp("data")
    return LoraJob(
        id="job",
        data=write_rows(folder / "data.jsonl", ROWS, seed=1),
        validation=write_rows(folder / "validation.jsonl", VALIDATION_ROWS, seed=2),
        epochs=EPOCHS,
        rank=4,
        dropout=0.2,
        batch_size=2,
        max_length=24,
        seed=5,
    )


def ignore(progress: Progress) -> None:
    """A report that nobody reads."""


class Budget:
    """Limits a call to a number of rows, by their cost, in rounds of at most three."""

    def __init__(self, rows: float) -> None:
        self.remaining = rows

    def max_rows(self) -> int:
        return min(3, int(self.remaining))

    def record(self, rows: float) -> None:
        self.remaining -= rows


@pytest.fixture(scope="module")
def whole(base: Base, job: LoraJob, tmp_path_factory: pytest.TempPathFactory) -> MultiLoraTrainer:
    """A trainer that had all the time that it needed."""
    trainer = MultiLoraTrainer(base, mode="exact")
    trainer.load(job, tmp_path_factory.mktemp("whole"))
    trainer.train({job.id: ALL}, ignore)
    return trainer


def test_each_row_is_a_row_of_the_job(whole: MultiLoraTrainer, job: LoraJob) -> None:
    progress = whole.progress(job.id)
    assert (progress.rows, progress.total_rows, progress.state) == (TOTAL, TOTAL, "done")
    assert [epoch for epoch, *_ in progress.validation] == [1, 2]
    assert [rows for _, rows, *_ in progress.validation] == [ROWS, 2 * ROWS]


@pytest.mark.parametrize("step", [2, 8])
def test_a_validation_that_is_cut_goes_on_from_its_checkpoint_to_the_same_bits(
    base: Base, job: LoraJob, whole: MultiLoraTrainer, tmp_path: Path, step: int
) -> None:
    trainer = MultiLoraTrainer(base, mode="exact", kept_epochs=2)
    trainer.load(job, tmp_path)
    for number, target in enumerate(range(step, TOTAL + step, step)):
        assert trainer.train({job.id: target}, ignore)[job.id].rows == min(target, TOTAL)
        trainer.save(job.id, number)
        trainer.unload(job.id)
        trainer.load(job, tmp_path)
    found, expected = trainer.progress(job.id), whole.progress(job.id)
    assert (found.state, found.validation) == (expected.state, expected.validation)
    assert is_same(trainer.weights(job.id), whole.weights(job.id))
    # An epoch's adapter is written with its validation.
    kept = [metrics for metrics, _ in read_epochs(tmp_path)]
    assert [(one.epoch, one.valid_loss, one.valid_accuracy) for one in kept] == [
        (epoch, loss, accuracy) for epoch, _, loss, accuracy in expected.validation
    ]


def test_a_slot_ends_by_its_budget_with_validation_data_of_any_size(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    large = write_rows(tmp_path / "large.jsonl", 60, seed=3)
    trainer = MultiLoraTrainer(base)
    trainer.load(replace(job, validation=large), tmp_path / "job")
    task = trainer.task(job.id)
    before, num_slots = 0.0, 0
    for _ in range(10**3):
        num_slots += 1
        progress = trainer.train({job.id: ALL}, ignore, Budget(10))[job.id]
        assert task.done_cost - before <= 10
        if progress.state == "done":
            break
        assert task.done_cost - before > 8
        before = task.done_cost
    # Half a row's time each, by their tokens.
    expected = task.total_cost / 10
    assert expected <= num_slots <= 1.25 * expected + 1
    assert len(progress.validation) == EPOCHS


def test_validation_leaves_other_jobs_of_the_node_their_rows(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    large = write_rows(tmp_path / "large.jsonl", 60, seed=3)
    other = LoraJob("other", job.data, epochs=8, rank=4, batch_size=2, max_length=24)
    trainer = MultiLoraTrainer(base)
    trainer.load(replace(job, validation=large), tmp_path / "job")
    trainer.load(other, tmp_path / "other")
    # By what was sold: both end at their targets, to the row.
    progress = trainer.train({"job": 25, "other": 10}, ignore)
    assert (progress["job"].rows, progress["other"].rows) == (25, 10)
    # With half of the time that both would take, both get about half of theirs.
    task = trainer.task("job")
    cost = task.row_cost * 40 + 20
    progress = trainer.train({"job": 65, "other": 30}, ignore, Budget(cost / 2))
    assert 0.3 < (progress["job"].rows - 25) / 40 < 0.7
    assert 0.3 < (progress["other"].rows - 10) / 20 < 0.7


def test_validation_data_that_have_changed_are_evaluated_anew(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path / "job")
    trainer.train({job.id: ROWS + 3}, ignore)
    trainer.save(job.id, 1)
    trainer.unload(job.id)
    other = write_rows(tmp_path / "other.jsonl", 4, seed=8)
    trainer.load(replace(job, validation=other), tmp_path / "job")
    assert trainer.progress(job.id).rows == ROWS
    progress = trainer.train({job.id: ALL}, ignore)[job.id]
    assert progress.rows == progress.total_rows == EPOCHS * (ROWS + 4)
    assert [epoch for epoch, *_ in progress.validation] == [1, 2]


@pytest.mark.parametrize("stop", [None, ROWS + 2])
def test_workers_validate_as_one_does(
    base: Base, job: LoraJob, whole: MultiLoraTrainer, tmp_path: Path, stop: int | None
) -> None:
    trainer = new_trainer(base, job, tmp_path, 1)
    workers = [GradientWorker(base, job) for _ in range(3)]
    if stop is not None:
        train_with(trainer, workers, stream(2), rows=stop)
        trainer.save()
        trainer = new_trainer(base, job, tmp_path, 1)
    train_with(trainer, workers, stream(1), deaths=0.2)
    found, expected = trainer.progress(), whole.progress(job.id)
    assert trainer.rows == trainer.total_rows == TOTAL
    assert trainer.done_cost == trainer.total_cost
    assert found.state == "done"
    for one, other in zip(found.validation, expected.validation, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
