"""An elastic job's weights depend on its rows and settings, and on nothing that workers do."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from auctune.domain.errors import CheckpointError
from auctune.engine.data.examiner import Examiner
from auctune.engine.elastic.trainer import ElasticTrainer
from auctune.numerics.rng import stream
from auctune.train.adapter_files import read_epochs, write_adapter_files
from auctune.train.base import Base
from auctune.train.data_parallel.batches import Contribution, RowRange
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from auctune.train.multilora.batching import MicroBatch
from auctune.train.trainer import MultiLoraTrainer
from support.elastic import is_same, train_with, weights_of
from support.elastic import new_trainer as make_trainer
from support.peft_adapters import start_of
from support.peft_alone import assert_close, train_alone
from support.small_bases import FAMILIES, build_base, write_pairs, write_rows

ROWS, MICRO = 22, 3


@pytest.fixture(scope="module", params=FAMILIES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> LoraJob:
    """Rows of very unequal lengths, and a last batch and a last micro-batch that are not full."""
    return LoraJob(
        id="job",
        data=write_rows(tmp_path_factory.mktemp("data") / "data.jsonl", ROWS, seed=1),
        epochs=2,
        rank=4,
        dropout=0.2,
        learning_rate=3e-3,
        weight_decay=0.1,
        schedule="cosine",
        warmup_steps=1,
        batch_size=8,
        max_length=24,
        seed=5,
    )


@pytest.fixture(scope="module")
def alone(base: Base, job: LoraJob, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """The weights of one worker that nobody disturbed."""
    trainer = new_trainer(base, job, tmp_path_factory.mktemp("alone"))
    train_with(trainer, [GradientWorker(base, job)], stream(0))
    return weights_of(trainer)


def new_trainer(base: Base, job: LoraJob, folder: Path, micro_batch: int = MICRO) -> ElasticTrainer:
    return make_trainer(base, job, folder, micro_batch)


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [2, 4, 8])
def test_weights_are_the_same_bits_for_any_number_of_workers(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path, num_workers: int
) -> None:
    trainer = new_trainer(base, job, tmp_path)
    workers = [GradientWorker(base, job) for _ in range(num_workers)]
    train_with(trainer, workers, stream(num_workers))
    assert is_same(weights_of(trainer), alone)


def test_weights_are_the_same_bits_when_workers_die(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    trainer = new_trainer(base, job, tmp_path)
    workers = [GradientWorker(base, job) for _ in range(3)]
    assert train_with(trainer, workers, stream(7), deaths=0.4) > 5
    assert is_same(weights_of(trainer), alone)


@pytest.mark.parametrize(("num_rows", "micro_batch"), [(1, 8), (5, 2)])
def test_data_smaller_than_a_batch_and_workers_without_any_give_the_same_bits(
    base: Base, job: LoraJob, tmp_path: Path, num_rows: int, micro_batch: int
) -> None:
    data = write_rows(tmp_path / "data.jsonl", num_rows, seed=2)
    few = replace(job, data=data, epochs=3)
    workers = [GradientWorker(base, few) for _ in range(4)]
    found = []
    for count in (1, 4):
        trainer = new_trainer(base, few, tmp_path / f"{count}", micro_batch)
        train_with(trainer, workers[:count], stream(count))
        assert (trainer.rows, trainer.step) == (3 * num_rows, 3)
        found.append(weights_of(trainer))
    assert is_same(*found)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_weights_are_those_of_peft_alone_with_the_whole_batch_at_once(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    start = weights_of(new_trainer(base, job, tmp_path))
    assert_close(alone, train_alone(base, job, start))


@pytest.mark.slow
def test_micro_batches_of_one_row_give_the_weights_of_exact_mode(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    # Exact mode pads to the job's longest row allowed; so rows of one length pass in one shape.
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "word1 word2 word3"}\n{"text": "word4 word5 word6"}\n' * 5)
    even = replace(job, data=data, max_length=4, batch_size=4)
    node = MultiLoraTrainer(base, mode="exact")
    node.load(even, tmp_path / "node")
    node.train({even.id: 10**6}, lambda progress: None)
    trainer = new_trainer(base, even, tmp_path / "elastic", 1)
    train_with(trainer, [GradientWorker(base, even) for _ in range(2)], stream(1))
    # Not the same bits on every processor: exact mode adds up gradients of rows within a product.
    assert_close(weights_of(trainer), node.weights(even.id))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 8, 17, 25, 41])
def test_a_job_goes_on_from_its_checkpoint_to_the_same_bits(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path, rows: int
) -> None:
    worker = GradientWorker(base, job)
    first = new_trainer(base, job, tmp_path)
    train_with(first, [worker], stream(0), rows=rows)
    first.save()
    again = new_trainer(base, job, tmp_path)
    assert again.rows == first.rows >= rows
    train_with(again, [worker, GradientWorker(base, job)], stream(1))
    assert is_same(weights_of(again), alone)
    assert [step for step, *_ in again.progress().losses] == [1, 2, 3, 4, 5, 6]
    assert again.progress().steps == 6


def test_a_late_or_doubled_contribution_changes_nothing(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    trainer = new_trainer(base, job, tmp_path)
    worker = GradientWorker(base, job)
    worker.set_weights(trainer.weights)
    first = trainer.next_micro_batch()
    assert first is not None
    contribution = worker.compute(first)
    wrong = Contribution(contribution.gradient * 7, 1.0, 0, 1)
    trainer.add_gradient(first, contribution)
    trainer.add_gradient(first, wrong)
    assert trainer.advance() == MICRO
    trainer.add_gradient(first, wrong)
    trainer.requeue(first)
    train_with(trainer, [worker], stream(0), rows=8)
    trainer.add_gradient(first, wrong)
    train_with(trainer, [worker], stream(0))
    assert is_same(weights_of(trainer), alone)


def test_rows_count_in_their_order(base: Base, job: LoraJob, tmp_path: Path) -> None:
    trainer = new_trainer(base, job, tmp_path)
    worker = GradientWorker(base, job)
    worker.set_weights(trainer.weights)
    parts = [trainer.next_micro_batch() for _ in range(3)]
    assert trainer.next_micro_batch() is None
    first, second, third = (part for part in parts if part is not None)
    for part in (third, second):
        trainer.add_gradient(part, worker.compute(part))
        assert trainer.advance() == 0
    trainer.add_gradient(first, worker.compute(first))
    assert [trainer.advance() for _ in range(4)] == [3, 3, 2, 0]
    assert (trainer.rows, trainer.step) == (8, 1)


def test_a_loss_that_is_no_number_ends_the_job_with_its_last_good_weights(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    trainer = new_trainer(base, job, tmp_path)
    before = weights_of(trainer)
    nothing = np.zeros_like(trainer.weights)
    while part := trainer.next_micro_batch():
        trainer.add_gradient(part, Contribution(nothing, float("nan"), 0, 1))
        trainer.advance()
    assert trainer.is_done
    assert trainer.progress().state == "failed"
    assert is_same(weights_of(trainer), before)


def test_a_checkpoint_within_a_micro_batch_is_refused(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    trainer = new_trainer(base, job, tmp_path, 2)
    train_with(trainer, [GradientWorker(base, job)], stream(0), rows=2)
    trainer.save()
    with pytest.raises(CheckpointError, match="micro-batch of 3"):
        new_trainer(base, job, tmp_path)


def test_a_worker_makes_the_files_of_the_adapter_and_checks_them(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    worker = GradientWorker(base, job)
    worker.load_file()
    worker.set_weights(np.concatenate([one.numpy().reshape(-1) for one in alone.values()]))
    write_adapter_files(tmp_path / "adapter", worker.export())
    found = load_file(tmp_path / "adapter/adapter_model.safetensors")
    assert is_same(found, {f"base_model.model.{name}": one for name, one in alone.items()})


@pytest.fixture(params=[False, True], ids=["from_the_base", "from_an_adapter"])
def pairs(request: pytest.FixtureRequest, base: Base, job: LoraJob, tmp_path: Path) -> LoraJob:
    """A job that learns preferences, with validation data."""
    family = "gpt2" if base.model.config.model_type == "gpt2" else "llama"
    return replace(
        job,
        data=write_pairs(tmp_path / "pairs.jsonl", 11),
        validation=write_pairs(tmp_path / "validation.jsonl", 4, seed=1),
        method="dpo",
        beta=0.3,
        batch_size=4,
        **(start_of(tmp_path, base, family) if request.param else {}),
    )


@pytest.mark.parametrize(
    "num_workers", [pytest.param(count, marks=pytest.mark.slow) for count in (2, 4)] + [8]
)
def test_preferences_are_the_same_bits_for_any_number_of_workers_that_die(
    base: Base, pairs: LoraJob, tmp_path: Path, num_workers: int
) -> None:
    alone = new_trainer(base, pairs, tmp_path / "alone")
    train_with(alone, [GradientWorker(base, pairs)], stream(0))
    trainer = new_trainer(base, pairs, tmp_path)
    half = num_workers // 2
    first = [GradientWorker(base, pairs) for _ in range(half)]
    train_with(trainer, first, stream(num_workers), deaths=0.3, rows=15)
    trainer.save()
    again = new_trainer(base, pairs, tmp_path)
    workers = first + [GradientWorker(base, pairs) for _ in range(half)]
    train_with(again, workers, stream(num_workers), deaths=0.3)
    assert is_same(weights_of(again), weights_of(alone))
    assert replace(again.progress(), losses=()) == replace(alone.progress(), losses=())


def test_references_of_pairs_are_computed_in_each_epoch_as_that_is_sold(
    base: Base, pairs: LoraJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, widths = GradientWorker(base, pairs), []
    compute = worker.step.log_probabilities

    def counted(batch: MicroBatch, adapters: Collection[str]) -> Tensor:
        widths.append(batch.num_tokens)
        return compute(batch, adapters)

    monkeypatch.setattr(worker.step, "log_probabilities", counted)
    worker.set_weights(new_trainer(base, pairs, tmp_path).weights)
    for _ in range(2):
        worker.compute(RowRange(0, MICRO))
    # One pass each, of the shape of the micro-batch.
    assert len(widths) == 2
    assert widths[0] == widths[1]


def test_preferences_by_pairs_of_one_length_are_those_of_exact_mode(
    base: Base, pairs: LoraJob, tmp_path: Path
) -> None:
    # All chats have one length, as exact mode pads to the longest.
    rows = [
        {
            "input": {"messages": [{"role": "user", "content": f"word{n} word2"}]},
            "preferred_output": [{"role": "assistant", "content": f"word{n + 9} word3"}],
            "non_preferred_output": [{"role": "assistant", "content": f"word4 word{n}"}],
        }
        for n in range(7)
    ]
    data = tmp_path / "even.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    even = replace(pairs, data=data, validation=data)
    node = MultiLoraTrainer(base, mode="exact")
    node.load(even, tmp_path / "node")
    node.train({even.id: 10**6}, lambda progress: None)
    trainer = new_trainer(base, even, tmp_path / "elastic", 1)
    train_with(trainer, [GradientWorker(base, even) for _ in range(2)], stream(1))
    # A node adds the products of a row to the gradient, a worker begins at zero: how a processor
    # rounds the two is its matter.
    expected_weights = node.weights(even.id)
    for name, weight in weights_of(trainer).items():
        torch.testing.assert_close(weight, expected_weights[name], rtol=1e-5, atol=1e-6)
    found, expected = trainer.progress().validation, node.progress(even.id).validation
    assert np.allclose(found, expected, rtol=1e-6, atol=0)


def test_activations_that_are_computed_again_change_no_bit(
    base: Base, job: LoraJob, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    trainer = new_trainer(base, job, tmp_path)
    worker = GradientWorker(base, job, gradient_checkpointing=1)
    assert worker._adapted.model.is_activation_checkpointing
    train_with(trainer, [worker, GradientWorker(base, job)], stream(0))
    assert is_same(weights_of(trainer), alone)


def test_adapters_of_the_last_epochs_are_kept(base: Base, job: LoraJob, tmp_path: Path) -> None:
    long = replace(job, epochs=4)
    trainer = new_trainer(base, long, tmp_path)
    worker = GradientWorker(base, long)
    train_with(trainer, [worker], stream(0), rows=2 * ROWS)
    trainer.save()
    again = new_trainer(base, long, tmp_path)
    train_with(again, [worker], stream(0))
    (last, weights), *epochs = again.adapters()
    assert last is None
    assert [metrics.epoch for metrics, _ in epochs if metrics is not None] == [2, 3, 4]
    np.testing.assert_array_equal(epochs[-1][1], weights)
    metrics, values = epochs[0]
    np.testing.assert_array_equal(values, trainer.weights)
    worker.set_weights(values)
    write_adapter_files(tmp_path / "epochs" / "2", worker.export(metrics))
    assert [found for found, _ in read_epochs(tmp_path)] == [metrics]


def test_rows_that_are_truncated_or_left_out_are_noted_as_the_market_notes_them(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    assert new_trainer(base, replace(job, max_length=60), tmp_path / "whole").facts.notes == ()
    short = replace(job, max_length=9, validation=job.data)
    size = Examiner(base.tokenizer, base.context_tokens).facts(job.data, "file", 9).size
    notes = new_trainer(base, short, tmp_path).facts.notes
    assert notes == replace(size, validation=size).notes(9)
    truncated, left_out, *_ = notes
    assert truncated.startswith("rows longer than max_length = 9 are truncated: ")
    assert left_out.startswith("rows without training targets are skipped: ")
