"""An adapter whose training takes turns is the adapter of the trainer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from auctune.domain.errors import InputError
from auctune.train.adapter_files import read_epochs
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.preemptible import LoraJobFactory, PreemptibleLoraJob, StepTooLongError
from auctune.train.trainer import MultiLoraTrainer
from support.peft_adapters import start_of
from support.small_bases import build_base, write_pairs, write_rows


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp("base"), "gpt2")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> LoraJob:
    return LoraJob(
        id="letters",
        data=write_rows(tmp_path_factory.mktemp("data") / "data.jsonl", 7, seed=1),
        epochs=1,
        rank=2,
        dropout=0.1,
        schedule="constant",
        batch_size=3,
        max_length=24,
    )


def _weights(node: MultiLoraTrainer, job: LoraJob) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in node.weights(job.id).items()}


def test_turns_and_company_change_no_bit_of_an_adapter(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    alone = MultiLoraTrainer(base, mode="exact")
    # Two epochs of 7 rows in batches of 3, 3 and 1.
    alone.load(replace(job, epochs=2), tmp_path / "alone")
    alone.train({job.id: 14}, lambda _: None)
    losses = [loss for *_, loss, _ in alone.curve(job.id)]

    factory = LoraJobFactory(base)
    running = factory.make(job, tmp_path / "a")
    other = factory.make(replace(job, id="other", seed=8), tmp_path / "b")
    assert running.step(1) == losses[0]
    running.suspend()
    other.step(2)
    other.suspend()
    assert other.resting_bytes == 0
    running.resume()
    assert np.isclose(running.step(3), np.mean(losses[1:4]), rtol=1e-12)
    written = running.state()
    running.step(2)
    assert running.batches == 6
    assert all(
        torch.equal(tensor, _weights(alone, job)[name])
        for name, tensor in _weights(factory._trainer, job).items()
    )

    again = LoraJobFactory(base).make(job, tmp_path / "c")
    again.restore(written)
    again.step(2)
    assert again.batches == 6
    one, two = again.state(), running.state()
    assert one.state == two.state
    assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in two.tensors)


def test_activations_that_are_computed_again_change_no_bit(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    kept, again = LoraJobFactory(base), LoraJobFactory(base, gradient_checkpointing=1)
    assert again._trainer.adapted.model.is_activation_checkpointing
    one, two = kept.make(job, tmp_path / "a"), again.make(job, tmp_path / "b")
    assert one.step(4) == two.step(4)
    weights = _weights(kept._trainer, job)
    assert all(
        torch.equal(tensor, weights[name]) for name, tensor in _weights(again._trainer, job).items()
    )


def test_a_job_that_diverged_has_no_loss_and_keeps_counting(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    running = LoraJobFactory(base).make(replace(job, learning_rate=1e9), tmp_path)
    assert np.isnan(running.step(6))
    assert np.isnan(running.step(2))
    assert running.batches == 8


def test_a_batch_that_takes_too_long_is_stopped_and_a_limit_changes_nothing_else(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "many.jsonl", 12, seed=1)
    large = replace(job, data=data, batch_size=12)
    free = LoraJobFactory(base).make(large, tmp_path / "a")
    limited = LoraJobFactory(base, max_step_seconds=1e9).make(large, tmp_path / "b")
    assert free.step(2) == limited.step(2)
    one, two = free.state(), limited.state()
    assert one.state == two.state
    assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in one.tensors)
    hasty = LoraJobFactory(base, max_step_seconds=0.0)
    # A batch as small as the rows between two looks at the clock is always trained.
    hasty.make(replace(large, id="small", batch_size=2), tmp_path / "c").step(3)
    slow = hasty.make(large, tmp_path / "d")
    with pytest.raises(StepTooLongError, match="a batch of 12 rows was stopped after 0 s"):
        slow.step(1)
    assert slow.batches == 0


def test_a_result_is_an_adapter_that_was_loaded_back(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    running: PreemptibleLoraJob = LoraJobFactory(base).make(job, tmp_path / "work")
    running.step(2)
    (tmp_path / "result").mkdir()
    running.save_result(tmp_path / "result")
    assert (tmp_path / "result" / "adapter" / "adapter_model.safetensors").is_file()


def test_a_schedule_that_must_know_the_end_is_refused(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="schedule: 'linear', but how many steps"):
        LoraJobFactory(base).make(replace(job, schedule="linear"), tmp_path)


@pytest.mark.parametrize("has_start", [False, True], ids=["from_the_base", "from_an_adapter"])
def test_turns_company_and_restarts_change_no_bit_of_an_adapter_that_learns_preferences(
    base: Base, job: LoraJob, tmp_path: Path, has_start: bool
) -> None:
    pairs = replace(
        job,
        data=write_pairs(tmp_path / "pairs.jsonl", 7),
        method="dpo",
        beta=0.3,
        **(start_of(tmp_path, base, "gpt2") if has_start else {}),
    )
    alone = MultiLoraTrainer(base, mode="exact")
    alone.load(replace(pairs, epochs=2), tmp_path / "alone")
    alone.train({pairs.id: 14}, lambda _: None)
    _, _, _, losses, accuracies = zip(*alone.curve(pairs.id), strict=True)

    factory = LoraJobFactory(base)
    running = factory.make(pairs, tmp_path / "a")
    other = factory.make(replace(job, id="other"), tmp_path / "b")
    found = []
    for _ in range(4):
        found.append((running.step(1), running.accuracy))
        running.suspend()
        assert running.resting_bytes == 0
        other.step(1)
        running.resume()
    # In the second epoch, with the references of some pairs only.
    again = LoraJobFactory(base)
    resumed = again.make(pairs, tmp_path / "c")
    resumed.restore(running.state())
    found += [(resumed.step(1), resumed.accuracy) for _ in range(2)]
    assert found == list(zip(losses, accuracies, strict=True))
    assert all(
        torch.equal(tensor, _weights(alone, pairs)[name])
        for name, tensor in _weights(again._trainer, pairs).items()
    )


def test_memory_of_a_job_counts_the_adapter_that_pairs_are_compared_with(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    pairs = replace(
        job,
        data=write_pairs(tmp_path / "pairs.jsonl", 3),
        method="dpo",
        **start_of(tmp_path, base, "gpt2"),
    )
    supervised = replace(pairs, id="rows", method="supervised", data=job.data)
    factory = LoraJobFactory(base)
    sizes = [factory.make(one, tmp_path / one.id).resting_bytes for one in (supervised, pairs)]
    # Weights, gradients and two moments; the weights at the start beside them.
    assert sizes[1] - sizes[0] == pytest.approx(sizes[0] / 4, abs=64)


def test_adapters_of_the_last_epochs_are_those_of_the_trainer_whatever_interrupts_a_job(
    base: Base, job: LoraJob, tmp_path: Path
) -> None:
    # 5 epochs of 3 batches, each in one go.
    alone = MultiLoraTrainer(base, mode="exact", kept_epochs=3)
    alone.load(replace(job, epochs=5), tmp_path / "alone")
    alone.train({job.id: 35}, lambda _: None)
    alone.save(job.id, 1)
    first = LoraJobFactory(base).make(job, tmp_path / "a")
    first.step(10)
    written = first.state()
    # Another one, whose own epochs are forgotten.
    again = LoraJobFactory(base).make(job, tmp_path / "b")
    again.step(4)
    again.restore(written)
    again.step(6)
    (tmp_path / "result").mkdir()
    again.save_result(tmp_path / "result")
    found, expected = (read_epochs(tmp_path / name) for name in ("result", "alone"))
    assert [metrics.epoch for metrics, _ in found] == [3, 4, 5]
    for (metrics, path), (known, other) in zip(found, expected, strict=True):
        assert metrics == known
        weights = [load_file(one / "adapter_model.safetensors") for one in (path, other)]
        assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
