"""Kahneman-Tversky optimization, fused and alone: as by plain PEFT and the paper's formula."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from auctune.datasets import read_dataset
from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.epoch_sampler import EpochSampler
from auctune.train.job import LoraJob
from auctune.train.rows import TokenizedRow, mismatch, tokenize
from auctune.train.trainer import MultiLoraTrainer
from support.peft_adapters import start_of
from support.peft_alone import (
    assert_close,
    plain_peft,
    train_alone,
    trained_parameters,
    weights_of,
)
from support.preferences import (
    TEMPLATE,
    KeyDropout,
    load,
    log_probability,
    preference_job,
    train_preferences_alone,
)
from support.small_bases import FAMILIES, build_base, write_pairs, write_ratings, write_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

NUM_ROWS = 9


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    return {family: build_base(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


def make_job(folder: Path, **changes: object) -> LoraJob:
    data = write_ratings(folder / "ratings.jsonl", NUM_ROWS)
    return preference_job(data, "kto", changes)


def divergence(
    model: nn.Module, reference: nn.Module, rows: list[TokenizedRow], job: LoraJob
) -> float:
    """The estimate of a batch: of each prompt with the answer before its own, the first's last."""
    if len(rows) == 1:
        return 0.0
    others = [mismatch(row, rows[n - 1], job.max_length) for n, row in enumerate(rows)]
    with torch.no_grad():
        gaps = [log_probability(model, row) - log_probability(reference, row) for row in others]
    return max(0.0, float(torch.stack(gaps).mean()))


def margin(
    model: nn.Module, reference: nn.Module, row: TokenizedRow, z: float, job: LoraJob
) -> Tensor:
    with torch.no_grad():
        of_base = log_probability(reference, row)
    return row.rating * job.beta * (log_probability(model, row) - of_base - z)


def train_ratings_alone(
    base: Base, job: LoraJob, start: dict[str, Tensor]
) -> tuple[dict[str, Tensor], list[float]]:
    def losses_of(
        model: nn.Module,
        reference: nn.Module,
        batch: list[tuple[int, TokenizedRow]],
        key_dropout: KeyDropout,
    ) -> Iterator[Tensor]:
        z = divergence(model.eval(), reference, [row for _, row in batch], job)
        model.train()
        for place, row in batch:
            key_dropout(place)
            yield 1 - margin(model, reference, row, z, job).sigmoid()

    return train_preferences_alone(base, job, start, losses_of)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("mode", "is_started"), [("fused", 0), ("exact", 0), ("fused", 1)])
def test_ratings_come_out_as_by_the_formula_and_change_nothing_of_other_jobs(
    bases: dict[str, Base], tmp_path: Path, family: str, mode: str, is_started: int
) -> None:
    base = bases[family]
    job = make_job(tmp_path, **start_of(tmp_path, base, family) if is_started else {})
    other = LoraJob(
        "other", write_rows(tmp_path / "other.jsonl", 12, seed=3), rank=2, batch_size=3, epochs=2
    )
    pairs = replace(job, id="pairs", method="dpo", data=write_pairs(tmp_path / "pairs.jsonl", 8))
    trainer = MultiLoraTrainer(base, mode=mode, token_budget=100)  # type: ignore[arg-type]
    for one in (job, other, pairs):
        load(trainer, one, tmp_path)
    starts = [weights_of(trainer, one) for one in (job, other)]
    targets = {job.id: 2 * NUM_ROWS, other.id: 24, pairs.id: 16}
    progress = trainer.train(targets, lambda _: None)
    expected, losses = train_ratings_alone(base, job, starts[0])
    assert_close(weights_of(trainer, job), expected)
    assert [point[3] for point in progress[job.id].losses] == pytest.approx(losses, abs=1e-4)
    assert_close(weights_of(trainer, other), train_alone(base, other, starts[1]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_started", [False, True])
def test_ratings_come_out_as_by_trl(tmp_path: Path, is_started: bool) -> None:
    """TRL is no dependency: `pip install trl` for this test."""
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets")
    base = build_base(tmp_path / "base", "llama")
    base.tokenizer.chat_template = TEMPLATE
    data = write_ratings(tmp_path / "twelve.jsonl", 12)
    start = start_of(tmp_path, base, "llama") if is_started else {}
    job = make_job(tmp_path, data=data, dropout=0.0, epochs=1, **start)
    trainer = MultiLoraTrainer(base)
    load(trainer, job, tmp_path)
    model = plain_peft(base, job)
    for name, parameter in trained_parameters(model).items():
        parameter.data.copy_(trainer.weights(job.id)[name])
    progress = trainer.train({job.id: 12}, lambda _: None)

    rows = [json.loads(line) for line in data.read_text().splitlines()]
    settings = trl.KTOConfig(
        output_dir=str(tmp_path / "trl"), beta=job.beta, max_length=job.max_length, max_steps=3,
        per_device_train_batch_size=job.batch_size, learning_rate=job.learning_rate,
        lr_scheduler_type="constant", optim="adamw_torch", weight_decay=0.0,
        max_grad_norm=job.max_grad_norm, logging_steps=1, use_cpu=True, bf16=False,
        gradient_checkpointing=False, report_to="none", save_strategy="no",
        train_sampling_strategy="sequential",
    )  # fmt: skip
    order = EpochSampler(len(rows), job.epochs, job.seed).next_indices(12)
    examples = [
        {"prompt": [ask], "completion": [answer], "label": rows[index]["label"]}
        for index in order
        for ask, answer in [rows[index]["messages"]]
    ]
    oracle = trl.KTOTrainer(
        model,
        # By default it is the adapter's own start, as of a job with `start_from`.
        ref_model=None if is_started else base.fresh_model(),
        args=settings,
        processing_class=base.tokenizer,
        train_dataset=datasets.Dataset.from_list(examples),
    )
    oracle.train()
    losses = [entry["loss"] for entry in oracle.state.log_history if "loss" in entry]
    assert [point[3] for point in progress[job.id].losses] == pytest.approx(losses, abs=1e-4)
    assert_close(
        weights_of(trainer, job), {k: v.detach() for k, v in trained_parameters(model).items()}
    )


@pytest.mark.slow
def test_ratings_go_on_after_a_cut_within_a_batch(bases: dict[str, Base], tmp_path: Path) -> None:
    base = bases["llama"]
    validation = write_ratings(tmp_path / "validation.jsonl", 6, seed=1)
    job = make_job(tmp_path, validation=validation, **start_of(tmp_path, base, "llama"))
    results = []
    for cuts in ((30,), (3, 9, 10, 13, 17, 20, 29, 30)):
        folder = tmp_path / str(len(cuts))
        for number, rows in enumerate(cuts):
            trainer = MultiLoraTrainer(base, mode="exact")
            trainer.load(job, folder)
            trainer.train({job.id: rows}, lambda _: None)
            trainer.save(job.id, number)
        results.append((weights_of(trainer, job), trainer.curve(job.id)))
    assert results[0][1] == results[1][1]
    for name, tensor in results[0][0].items():
        assert torch.equal(tensor, results[1][0][name])


def test_an_estimate_is_computed_within_shares_and_goes_on_after_a_cut(
    bases: dict[str, Base], tmp_path: Path
) -> None:
    base, job = bases["llama"], make_job(tmp_path)
    trainer = MultiLoraTrainer(base, mode="exact")
    trainer.load(job, tmp_path / "cut")
    task = trainer._places[job.id].task
    for done in (1, 2, 3):
        assert trainer.loop.run([(task, 2 * NUM_ROWS)], 1) == []
        assert trainer.loop.num_estimated == 1
        assert [len(gaps) for gaps in task.gaps.values()] == [done]
    assert task.done_rows == 0
    trainer.save(job.id, 0)
    results = []
    for folder in ("cut", "whole"):
        other = MultiLoraTrainer(base, mode="exact")
        other.load(job, tmp_path / folder)
        kept = [len(gaps) for gaps in other._places[job.id].task.gaps.values()]
        assert kept == ([3] if folder == "cut" else [])
        other.train({job.id: 2 * NUM_ROWS}, lambda _: None)
        results.append((weights_of(other, job), other.curve(job.id)))
    assert results[0][1] == results[1][1]
    for name, tensor in results[0][0].items():
        assert torch.equal(tensor, results[1][0][name])


def test_the_validation_loss_is_that_of_ratings(bases: dict[str, Base], tmp_path: Path) -> None:
    base = bases["gpt2"]
    validation = write_ratings(tmp_path / "validation.jsonl", 6, seed=1)
    job = make_job(tmp_path, validation=validation, epochs=1)
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path / "job")
    progress = trainer.train({job.id: NUM_ROWS + 6}, lambda _: None)[job.id]
    ((_, _, loss, accuracy),) = progress.validation
    model, reference = plain_peft(base, job).eval(), base.fresh_model()
    found = weights_of(trainer, job)
    for name, parameter in trained_parameters(model).items():
        parameter.data.copy_(found[name])
    rows = tokenize(read_dataset(validation), base.tokenizer, job.max_length).rows
    margins: list[float] = []
    with torch.no_grad():
        for first in (0, 4):
            batch = list(rows[first : first + 4])
            z = divergence(model, reference, batch, job)
            margins += [float(margin(model, reference, row, z, job)) for row in batch]
    found_losses = 1 / (1 + np.exp(margins))
    assert loss == pytest.approx(found_losses.mean(), abs=1e-4)
    assert accuracy == pytest.approx(np.mean(np.array(margins) > 0))


def test_rows_and_method_must_go_together(bases: dict[str, Base], tmp_path: Path) -> None:
    ratings = make_job(tmp_path)
    pairs = write_pairs(tmp_path / "pairs.jsonl", 4, seed=2)
    trainer = MultiLoraTrainer(bases["gpt2"])
    with pytest.raises(InputError, match=r"has preferences .*, for method 'kto'"):
        trainer.load(replace(ratings, data=pairs), tmp_path / "none")
    with pytest.raises(InputError, match=r"has unpaired preferences .*, for method 'dpo'"):
        trainer.load(replace(ratings, method="dpo"), tmp_path / "none")
