"""Jobs on one node do not touch each other, and each goes exactly as far as it is told to."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from auctune.datasets import read_dataset
from auctune.domain.errors import InputError
from auctune.train.base import Base, compute_digest
from auctune.train.job import LoraJob, Progress
from auctune.train.multilora.batching import MicroBatch
from auctune.train.multilora.step import ForwardBackward
from auctune.train.peak_memory import peak_bytes
from auctune.train.rows import TokenizedRow, tokenize
from auctune.train.trainer import MultiLoraTrainer
from support.peft_alone import assert_close, weights_of
from support.small_bases import build_base, write_rows


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp("gpt2"), "gpt2")


def make_job(folder: Path, name: str, **changes: object) -> LoraJob:
    seed = sum(map(ord, name))
    job = LoraJob(
        id=name,
        data=write_rows(folder / f"{name}.jsonl", 11, seed=seed),
        epochs=3,
        rank=4,
        dropout=0.2,
        learning_rate=3e-3,
        batch_size=4,
        max_length=24,
        seed=seed,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def ignore(progress: Progress) -> None:
    """A report that nobody reads."""


def train(base: Base, jobs: list[LoraJob], folder: Path, **options: object) -> MultiLoraTrainer:
    trainer = MultiLoraTrainer(base, **options)  # type: ignore[arg-type]
    for job in jobs:
        trainer.load(job, folder / job.id)
    trainer.train({job.id: 10**6 for job in jobs}, ignore)
    return trainer


@pytest.mark.slow
def test_a_job_comes_out_the_same_whoever_shares_its_node(base: Base, tmp_path: Path) -> None:
    job = make_job(tmp_path, "mine")
    alone = weights_of(train(base, [job], tmp_path), job)
    for count in (1, 3, 6):
        others = [
            make_job(tmp_path, f"other-{n}", rank=1 + n, dropout=0.1 * n, batch_size=1 + n)
            for n in range(count)
        ]
        trainer = train(base, [*others, job], tmp_path)
        assert_close(weights_of(trainer, job), alone)


def test_targets_are_reached_to_the_row_and_no_further(base: Base, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path, name) for name in ("a", "b")]
    trainer = MultiLoraTrainer(base)
    for job in jobs:
        assert trainer.load(job, tmp_path / job.id).total_rows == 33
    progress = trainer.train({"a": 5, "b": 0}, ignore)
    assert (progress["a"].rows, progress["a"].steps, progress["b"].rows) == (5, 1, 0)
    progress = trainer.train({"a": 5, "b": 10**6}, ignore)
    assert (progress["a"].rows, progress["a"].state) == (5, "training")
    assert (progress["b"].rows, progress["b"].state) == (33, "done")
    # Three batches an epoch, of 4, 4 and 3 rows.
    assert progress["b"].steps == 9


def test_batches_cut_by_targets_give_the_weights_of_whole_ones(base: Base, tmp_path: Path) -> None:
    job = make_job(tmp_path, "job")
    whole = weights_of(train(base, [job], tmp_path), job)
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path)
    for target in (1, 2, 7, 10, 11, 13, 30, 33):
        assert trainer.train({"job": target}, ignore)["job"].rows == target
    assert_close(weights_of(trainer, job), whole)


def test_each_step_is_reported_once_with_its_loss(base: Base, tmp_path: Path) -> None:
    job = make_job(tmp_path, "job")
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path)
    reports: list[Progress] = []
    result = [trainer.train({"job": rows}, reports.append)["job"] for rows in (14, 33)]
    steps = [loss for report in reports for loss in report.losses]
    assert [step for step, *_ in steps] == list(range(1, 10))
    assert [rows for _, rows, *_ in steps] == [4, 8, 11, 15, 19, 22, 26, 30, 33]
    assert [len(progress.losses) for progress in result] == [3, 6]
    assert steps[-1][3] < steps[0][3]
    assert all(report.tokens_per_second > 0 and report.memory_gb > 0 for report in reports)


def test_a_loss_that_is_no_number_ends_its_own_job_only(base: Base, tmp_path: Path) -> None:
    good = [make_job(tmp_path, name) for name in ("good", "fine")]
    bad = make_job(tmp_path, "bad", learning_rate=1e9, max_grad_norm=0.0, schedule="constant")
    alone = {job.id: weights_of(train(base, [job], tmp_path), job) for job in good}
    trainer = MultiLoraTrainer(base)
    for job in (good[0], bad, good[1]):
        trainer.load(job, tmp_path / job.id)
    progress = trainer.train(dict.fromkeys(("good", "bad", "fine"), 33), ignore)
    assert progress["bad"].state == "failed"
    assert "in step" in progress["bad"].note
    assert progress["bad"].rows < 33
    for job in good:
        assert progress[job.id].state == "done"
        assert_close(weights_of(trainer, job), alone[job.id])
    assert trainer.train({"bad": 33}, ignore)["bad"].rows == progress["bad"].rows


class CrampedStep(ForwardBackward):
    """Runs micro-batches on a device that has room for `limit` tokens.

    It runs out in the backward pass, when gradients of some layers have been added already.
    """

    def __init__(self, step: ForwardBackward, limit: int) -> None:
        self.inner, self.body = step, step.body
        self.limit = limit
        self.failures = 0

    def train(self, batch: MicroBatch) -> dict[str, Tensor]:
        sums = self.inner.train(batch)
        if batch.num_tokens > self.limit:
            self.failures += 1
            raise torch.OutOfMemoryError("no room")
        return sums

    def evaluate(self, batch: MicroBatch) -> dict[str, Tensor]:
        if batch.num_tokens > 2 * self.limit:
            self.failures += 1
            raise torch.OutOfMemoryError("no room")
        return self.inner.evaluate(batch)

    def logits(self, adapter: str, row: TokenizedRow) -> Tensor:
        return self.inner.logits(adapter, row)


def test_out_of_memory_shrinks_the_budget_and_changes_no_result(base: Base, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path, name) for name in ("a", "b")]
    roomy = train(base, jobs, tmp_path)
    trainer = MultiLoraTrainer(base)
    step = CrampedStep(trainer.loop.step, limit=30)
    trainer.loop.step = step
    for job in jobs:
        trainer.load(job, tmp_path / job.id)
    # The second call begins in the middle of a batch.
    trainer.train({"a": 2, "b": 2}, ignore)
    progress = trainer.train({"a": 33, "b": 33}, ignore)
    assert 0 < step.failures < 8
    assert trainer.budget is not None
    assert trainer.budget <= 60
    for job in jobs:
        assert (progress[job.id].state, progress[job.id].rows) == ("done", 33)
        assert progress[job.id].tokens == roomy.progress(job.id).tokens
        assert_close(weights_of(trainer, job), weights_of(roomy, job))


def test_a_budget_is_back_at_its_start_once_memory_has_room_again(
    base: Base, tmp_path: Path
) -> None:
    job = make_job(tmp_path, "job", epochs=30)
    trainer = MultiLoraTrainer(base, token_budget=48)
    step = CrampedStep(trainer.loop.step, limit=30)
    trainer.loop.step = step
    trainer.load(job, tmp_path / job.id)
    trainer.train({"job": 11}, ignore)
    assert step.failures
    assert trainer.budget is not None
    assert trainer.budget < 48
    step.limit = 10**6
    trainer.train({"job": 10**6}, ignore)
    assert trainer.budget == 48


def test_a_row_that_never_fits_ends_its_own_job_only(base: Base, tmp_path: Path) -> None:
    small = make_job(tmp_path, "small", max_length=8)
    large = make_job(tmp_path, "large")
    trainer = MultiLoraTrainer(base)
    trainer.loop.step = CrampedStep(trainer.loop.step, limit=8)
    for job in (small, large):
        trainer.load(job, tmp_path / job.id)
    progress = trainer.train({"small": 99, "large": 99}, ignore)
    assert (progress["small"].state, progress["large"].state) == ("done", "failed")
    assert "out of memory" in progress["large"].note
    alone = weights_of(train(base, [small], tmp_path), small)
    assert_close(weights_of(trainer, small), alone)


def test_validation_means_are_those_of_each_epochs_end(base: Base, tmp_path: Path) -> None:
    validation = write_rows(tmp_path / "validation.jsonl", 5, seed=9)
    job = make_job(tmp_path, "job", validation=validation, dropout=0.5)
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path)
    rows = tokenize(read_dataset(validation), base.tokenizer, job.max_length).rows
    for epoch in (1, 2, 3):
        losses = trainer.train({"job": 16 * epoch}, ignore)["job"].validation
        assert [number for number, *_ in losses] == list(range(1, epoch + 1))
        trained, hits, total = 0, 0, 0.0
        for row in rows:
            logits = trainer.loop.step.logits("job0", row)[:-1]
            labels = torch.from_numpy(row.labels[1:])
            total += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            trained += int((labels != -100).sum())
            hits += int((logits.argmax(-1) == labels).sum())
        assert losses[-1][1] == 11 * epoch
        assert losses[-1][2] == pytest.approx(total / trained, rel=1e-5)
        assert losses[-1][3] == hits / trained


def test_a_job_out_of_patience_stops_early(base: Base, tmp_path: Path) -> None:
    validation = write_rows(tmp_path / "validation.jsonl", 5, seed=9)
    job = make_job(tmp_path, "job", validation=validation, patience=2, epochs=20, learning_rate=0.3)
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path)
    progress = trainer.train({"job": 10**6}, ignore)["job"]
    losses = [loss for _, _, loss, _ in progress.validation]
    assert progress.state == "done"
    assert progress.rows == 16 * len(losses) < 16 * 20
    assert "early" in progress.note
    assert min(losses[-2:]) >= min(losses)
    assert losses.index(min(losses)) == len(losses) - 3


@pytest.mark.parametrize("patience", [2, 50], ids=["stopped early", "to the last epoch"])
def test_a_job_with_patience_ends_with_the_weights_of_its_best_epoch(
    base: Base, tmp_path: Path, patience: int
) -> None:
    validation = write_rows(tmp_path / "validation.jsonl", 5, seed=9)
    # It learns its few rows by heart after an epoch, on whatever processor.
    job = make_job(
        tmp_path,
        "job",
        validation=validation,
        patience=patience,
        epochs=6,
        learning_rate=0.03,
        dropout=0.0,
        schedule="constant",
    )
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path)
    by_epoch, progress = [], trainer.train({"job": 0}, ignore)["job"]
    # A node stops between slots, and goes on from its checkpoint.
    while progress.state == "training":
        progress = trainer.train({"job": progress.rows + 16}, ignore)["job"]
        by_epoch.append(weights_of(trainer, job))
        trainer.save("job", len(by_epoch))
        trainer.unload("job")
        trainer.load(job, tmp_path)
    losses = [loss for _, _, loss, _ in progress.validation]
    best = losses.index(min(losses))
    assert best < len(losses) - 1
    assert f"those of epoch {best + 1}" in progress.note
    assert_close(weights_of(trainer, job), by_epoch[best])


def test_an_exported_adapter_has_the_trained_logits(base: Base, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path, name) for name in ("a", "b")]
    trainer = train(base, jobs, tmp_path)
    for job in jobs:
        exported = trainer.export(job.id, tmp_path / "out" / job.id)
        assert exported.difference < 1e-4
        assert {path.name for path in exported.folder.iterdir()} == {
            "adapter_config.json",
            "adapter_model.safetensors",
            "auctune.json",
        }


def test_jobs_come_and_go(base: Base, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path, name) for name in ("a", "b.with.dots", "c")]
    trainer = train(base, jobs[:2], tmp_path)
    kept = weights_of(trainer, jobs[1])
    trainer.unload("a")
    trainer.load(jobs[2], tmp_path / "c")
    trainer.train({"c": 33}, ignore)
    assert_close(weights_of(trainer, jobs[1]), kept)
    assert_close(
        weights_of(trainer, jobs[2]), weights_of(train(base, [jobs[2]], tmp_path), jobs[2])
    )
    trainer.unload("b.with.dots")
    trainer.unload("c")
    assert not any(p.requires_grad for p in trainer.adapted.model.parameters())
    assert compute_digest(base.fresh_model()) == base.digest


def test_what_cannot_be_loaded_is_refused_and_leaves_the_others_alone(
    base: Base, tmp_path: Path
) -> None:
    job = make_job(tmp_path, "job")
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path / "job")
    for wrong, place in (
        (job, "job"),
        (make_job(tmp_path, "x", target_modules=("no_such_module",)), "target_modules"),
        (make_job(tmp_path, "x", target_modules=("wte",)), "target_modules"),
        (make_job(tmp_path, "x", max_length=1), "rows"),
    ):
        with pytest.raises(InputError) as caught:
            trainer.load(wrong, tmp_path / "x")
        assert place in caught.value.place
    trainer.train({"job": 33}, ignore)
    assert_close(weights_of(trainer, job), weights_of(train(base, [job], tmp_path), job))
    with pytest.raises(InputError, match="not loaded"):
        trainer.train({"stranger": 1}, ignore)


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "grouped"},
        {"backend": "quick"},
        {"mode": "sloppy"},
        {"token_budget": 0},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_cannot_be_met_are_refused(base: Base, options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        MultiLoraTrainer(base, **options)  # type: ignore[arg-type]


def test_memory_of_eight_tasks_is_their_own_and_one_micro_batch(base: Base, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "' + "word1 " * 40 + '"}\n')
    data.write_text(data.read_text() * 8)
    peaks, states = [], []
    for count, batch_size in ((8, 1), (1, 8)):
        trainer = MultiLoraTrainer(base, token_budget=8 * 24)
        jobs = [
            make_job(tmp_path, f"{count}-{n}", data=data, batch_size=batch_size)
            for n in range(count)
        ]

        def work(trainer: MultiLoraTrainer = trainer, jobs: list[LoraJob] = jobs) -> None:
            for job in jobs:
                trainer.load(job, tmp_path / job.id)
            trainer.train({job.id: job.batch_size for job in jobs}, ignore)

        peaks.append(peak_bytes(work, base.device))
        states.append(round(trainer.progress(jobs[0].id).memory_gb * 1e9))
    micro_batch = peaks[1] - states[1]
    assert micro_batch > 8 * states[0] / 4
    assert peaks[0] <= 1.1 * (8 * states[0] + micro_batch)
