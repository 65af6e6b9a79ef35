"""An adapter trained on chunks at sites, against one process and against plain PEFT."""

import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PeftModel
from torch import nn
from transformers import get_scheduler

from auctune.datasets import read_dataset
from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.errors import CheckpointError, InputError
from auctune.train.base import Base
from auctune.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from auctune.train.data_parallel.batches import ChunkRows, Contribution, slot_batches
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from auctune.train.multilora.dropout import row_key
from auctune.train.rows import tokenize
from auctune.train.trainer import MultiLoraTrainer
from support.chunk_training import new_reducer, train_alone, train_slot
from support.peft_adapters import start_of
from support.peft_alone import batch_loss, plain_peft, replace_dropouts, trained_parameters
from support.small_bases import FAMILIES, WORDS, build_base, write_rows

MICRO, EPOCHS = 2, 2
# Chunks of the plan's slots.
SLOTS = ((0, 2), (1, 3))


@pytest.fixture(scope="module", params=FAMILIES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> list[DataSet]:
    """Four chunks of unequal sizes; the rows are of very unequal lengths."""
    rows = read_dataset(write_rows(tmp_path_factory.mktemp("data") / "rows.jsonl", 19, seed=1))
    cuts = (0, 5, 9, 16, 19)
    return [DataSet(rows.kind, rows.rows[first:stop]) for first, stop in pairwise(cuts)]


@pytest.fixture(scope="module")
def job() -> LoraJob:
    return LoraJob(
        id="job", data=Path(), epochs=EPOCHS, rank=4, dropout=0.2, learning_rate=3e-3,
        weight_decay=0.1, schedule="cosine", warmup_steps=1, batch_size=6, max_length=24, seed=5,
    )  # fmt: skip


def total(chunks: list[DataSet]) -> int:
    return EPOCHS * sum(map(len, chunks))


def is_same(one: Checkpoint, other: Checkpoint) -> bool:
    assert set(one.tensors) == {"adapter", "exp_avg", "exp_avg_sq"}
    same = all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    return same and one.state == other.state


@pytest.fixture(scope="module")
def alone(base: Base, job: LoraJob, chunks: list[DataSet]) -> Checkpoint:
    return train_alone(job, MICRO, GradientWorker(base, job), chunks, SLOTS, total(chunks))


def test_a_job_that_starts_from_an_adapter_begins_with_its_weights(
    base: Base, job: LoraJob, chunks: list[DataSet], tmp_path: Path
) -> None:
    family = "gpt2" if base.model.config.model_type == "gpt2" else "llama"
    start = start_of(tmp_path, base, family)
    path = start.pop("start_from")
    worker = GradientWorker(base, replace(job, **start))
    new = worker.first_weights.copy()
    worker.start_from(path)
    trainer = MultiLoraTrainer(base, mode="exact")
    data = write_rows(tmp_path / "rows.jsonl", 6, seed=1)
    trainer.load(replace(job, data=data, start_from=path, **start), tmp_path / "work")
    expected = trainer.task(job.id).weights.values.numpy()
    np.testing.assert_array_equal(worker.first_weights, expected)
    assert not np.array_equal(worker.first_weights, new)
    with pytest.raises(InputError, match="start_from: is not the adapter"):
        GradientWorker(base, replace(job, **{**start, "start_digest": "0"})).start_from(path)


@pytest.mark.parametrize("every", [1, 2])
def test_activations_that_are_computed_again_change_no_bit(
    base: Base, job: LoraJob, chunks: list[DataSet], alone: Checkpoint, every: int
) -> None:
    worker = GradientWorker(base, job, gradient_checkpointing=every)
    assert is_same(train_alone(job, MICRO, worker, chunks, SLOTS, total(chunks)), alone)


@pytest.mark.slow
def test_workers_at_two_sites_come_to_the_bits_of_one_process(
    base: Base, job: LoraJob, chunks: list[DataSet], alone: Checkpoint, tmp_path: Path
) -> None:
    north, south = GradientWorker(base, job), GradientWorker(base, job)
    state: Checkpoint | None = None
    for first, second in SLOTS:
        parts = [(south, {second: chunks[second]}), (north, {first: chunks[first]})]
        state, _ = train_slot(job, MICRO, state, parts, total(chunks))
        # A checkpoint between slots changes nothing.
        save_checkpoint(tmp_path, state.state["steps"], state)
        state = load_checkpoint(tmp_path, state.state["steps"])
    assert state is not None
    assert is_same(state, alone)
    assert state.state["base_digest"] == base.digest
    assert state.state["rows"] == total(chunks)


def test_a_batch_of_one_site_after_the_other_is_not_that_of_both(
    base: Base, job: LoraJob, chunks: list[DataSet], alone: Checkpoint
) -> None:
    """The plan decides which rows meet in a batch, so it decides the weights."""
    worker = GradientWorker(base, job)
    other = train_alone(job, MICRO, worker, chunks, ((0,), (2,), (1, 3)), total(chunks))
    assert not is_same(other, alone)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_weights_are_those_of_plain_peft_on_the_same_batches(
    base: Base, job: LoraJob, chunks: list[DataSet], alone: Checkpoint
) -> None:
    worker = GradientWorker(base, job)
    model = plain_peft(base, job)
    weights = trained_parameters(model)
    worker.set_weights(worker.first_weights)
    start = worker.weights.named(worker.weights.values)
    for name, parameter in weights.items():
        parameter.data.copy_(start[name])
    dropouts = replace_dropouts(model, job)
    optimizer = torch.optim.AdamW(weights.values(), lr=3e-3, weight_decay=0.1)
    num_steps = -(-total(chunks) // job.batch_size)
    schedule = get_scheduler("cosine", optimizer, 1, num_steps)
    rates = []
    for _ in range(num_steps):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    rows = [tokenize(chunk, base.tokenizer, 24).rows for chunk in chunks]
    done = 0
    for numbers in SLOTS:
        sizes = {number: len(rows[number]) for number in numbers}
        for batch in slot_batches(job.seed, job.batch_size, MICRO, sizes, EPOCHS):
            picked, keys = [], []
            for part in batch:
                place = (part.chunk * EPOCHS + part.epoch) * 2**32 + part.first
                for offset, index in enumerate(part.indices(job.seed, sizes[part.chunk])):
                    picked.append(rows[part.chunk][index])
                    keys.append(row_key(job.seed, place + offset))
            for dropout in dropouts:
                dropout.row_keys = torch.tensor(keys)
            optimizer.zero_grad()
            torch.autograd.backward(batch_loss(model, picked))
            nn.utils.clip_grad_norm_(weights.values(), job.max_grad_norm)
            optimizer.param_groups[0]["lr"] = rates[done // job.batch_size]
            optimizer.step()
            done += len(picked)
    worker.set_weights(alone.tensors["adapter"].numpy())
    found = worker.weights.named(worker.weights.values)
    for name, parameter in weights.items():
        torch.testing.assert_close(found[name], parameter.detach(), rtol=0, atol=1e-5)


def test_only_gradients_losses_and_counts_leave_a_worker(
    base: Base, job: LoraJob, chunks: list[DataSet]
) -> None:
    worker = GradientWorker(base, job)
    sizes = worker.load_chunks(dict(enumerate(chunks)))
    rows = [row for chunk in chunks for row in tokenize(chunk, base.tokenizer, 24).rows]
    part = ChunkRows(0, 0, 0, MICRO)
    found = worker.compute(part)
    assert {name: type(getattr(found, name)) for name in found.__slots__} == {
        "gradient": np.ndarray, "loss": float, "hits": int, "num_targets": int,
        "num_tokens": int,
    }  # fmt: skip
    assert found.gradient.shape == worker.first_weights.shape
    sent = pickle.dumps((sizes, found, worker.base_digest))
    assert not any(word.encode() in sent for word in WORDS)
    for row in rows:
        for width in (np.int32, np.int64):
            assert row.input_ids.astype(width).tobytes() not in sent


def test_rows_with_nothing_to_learn_are_left_out_and_a_chunk_may_have_no_others(
    base: Base, job: LoraJob, chunks: list[DataSet]
) -> None:
    worker = GradientWorker(base, job)
    row = {"prompt": "word1 " * 40, "completion": "word2"}
    empty = DataSet(chunks[0].kind, (row,) * 3)
    mixed = DataSet(chunks[0].kind, chunks[0].rows + empty.rows)
    assert worker.load_chunks({7: mixed, 8: empty}) == {7: len(chunks[0]), 8: 0}


def test_a_step_that_is_not_finite_is_not_taken(
    base: Base, job: LoraJob, alone: Checkpoint
) -> None:
    reducer = new_reducer(job, GradientWorker(base, job), 100)
    reducer.restore(alone)
    for gradient, loss in ((np.nan, 1.0), (0.0, np.nan)):
        wrong = Contribution(np.full_like(reducer.weights, gradient), loss, 0, 3)
        reducer.add(wrong, 2)
        point = reducer.step()
        assert point is not None
        assert np.isnan(point[3])
        assert reducer.progress().state == "failed"
    assert is_same(reducer.capture(), alone)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.filterwarnings("ignore:fan_in_fan_out:UserWarning")
def test_the_adapter_is_loaded_by_plain_peft_and_lowers_the_loss_on_held_out_rows(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    """All completions are alike, so that others can be learned from them."""
    rows = tuple(
        {"prompt": f"word{number} ", "completion": "word5 word9 word7"} for number in range(18)
    )
    *chunks, held_out = (DataSet(RowKind.COMPLETION, rows[n : n + 6]) for n in (0, 6, 12))
    quick = replace(job, epochs=4, learning_rate=0.02, dropout=0.0, weight_decay=0.0)
    worker = GradientWorker(base, quick)
    worker.load_chunks({}, held_out)
    before = worker.validate(0, 6)
    state = train_alone(quick, MICRO, worker, chunks, ((0, 1),), 4 * 12)
    worker.set_weights(state.tensors["adapter"].numpy())
    worker.load_chunks({}, held_out)
    after = worker.validate(0, 6)
    assert after.num_targets == before.num_targets
    assert after.loss < 0.8 * before.loss
    assert after.hits > before.hits
    files = worker.export()
    assert set(files) >= {"adapter_config.json", "adapter_model.safetensors"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert isinstance(PeftModel.from_pretrained(base.fresh_model(), str(tmp_path)), PeftModel)


def test_a_checkpoint_of_something_else_is_refused(
    base: Base, job: LoraJob, alone: Checkpoint
) -> None:
    tensors = {name: one for name, one in alone.tensors.items() if name != "exp_avg"}
    reducer = new_reducer(job, GradientWorker(base, job), 100)
    with pytest.raises(CheckpointError, match="exp_avg"):
        reducer.restore(Checkpoint(tensors, alone.state))


def test_a_checkpoint_of_the_format_before_is_that_of_this_one(
    base: Base, job: LoraJob, alone: Checkpoint
) -> None:
    tensors = dict(alone.tensors)
    tensors["weights"] = tensors.pop("adapter")
    reducer = new_reducer(job, GradientWorker(base, job), 100)
    reducer.restore(Checkpoint(tensors, alone.state))
    assert is_same(reducer.capture(), alone)


@given(
    sizes=st.dictionaries(st.integers(0, 9), st.integers(0, 13), min_size=1),
    micro_batch=st.integers(1, 5),
    per_batch=st.integers(1, 4),
)
def test_all_batches_of_an_epoch_but_the_last_are_full_and_have_each_row_once(
    sizes: dict[int, int], micro_batch: int, per_batch: int
) -> None:
    batch_size, total = micro_batch * per_batch, sum(sizes.values())
    batches = list(slot_batches(5, batch_size, micro_batch, sizes, EPOCHS))
    for epoch in range(EPOCHS):
        mine = [batch for batch in batches if batch[0].epoch == epoch]
        counts = [sum(part.num_rows for part in batch) for batch in mine]
        full, rest = divmod(total, batch_size)
        assert counts == [batch_size] * full + ([rest] if rest else [])
        parts = [part for batch in mine for part in batch]
        assert all(0 < part.num_rows <= micro_batch for part in parts)
        rows = Counter((part.chunk, row) for part in parts for row in range(part.first, part.stop))
        expected = {(chunk, row) for chunk, size in sizes.items() for row in range(size)}
        assert rows == Counter(expected)
