"""Training many adapters together gives each the weights that plain PEFT gives it alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from auctune.datasets import read_dataset
from auctune.train.base import Base, load_base
from auctune.train.checkpoint import load_latest
from auctune.train.job import LoraJob
from auctune.train.multilora.backends import Backend
from auctune.train.multilora.segment_backends import BmmBackend, GroupedBackend, LoopBackend
from auctune.train.rows import tokenize
from auctune.train.trainer import MultiLoraTrainer
from support.peft_alone import (
    ATOL,
    RTOL,
    assert_close,
    batch_loss,
    optimizer_batches,
    plain_peft,
    train_alone,
    trained_parameters,
    weights_of,
)
from support.small_bases import FAMILIES, build_base, write_rows
from support.thorough import alternated

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

TARGETS = {
    "gpt2": ((), ("c_attn", "c_proj"), ("c_fc",), ("c_attn", "c_fc", "c_proj")),
    "llama": (
        (),
        ("down_proj", "k_proj"),
        ("gate_proj",),
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    ),
}
BACKENDS: dict[str, Backend] = {
    "loop": LoopBackend(),
    "bmm": BmmBackend(),
    "grouped": GroupedBackend(),
}

Oracle = Callable[[str, int], dict[str, Tensor]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    return {family: build_base(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def make_job(folder: Path, family: str, number: int) -> LoraJob:
    """No two of eight jobs have the same shape."""
    batch_size = 1 + number % 5
    return LoraJob(
        id=f"job.{number}",
        data=write_rows(folder / f"{number}.jsonl", 2 * batch_size, seed=number),
        epochs=2,
        rank=(4, 1, 8, 3, 16, 2, 5, 7)[number],
        alpha=(16.0, 1.0, 8.0, 4.5, 32.0, 2.0, 5.0, 3.0)[number],
        dropout=(0.1, 0.0, 0.5, 0.05, 0.0, 0.3, 0.0, 0.2)[number],
        target_modules=TARGETS[family][number % 4],
        learning_rate=(1e-3, 3e-3)[number % 2],
        weight_decay=(0.0, 0.1)[number % 2],
        schedule=("linear", "cosine", "constant")[number % 3],
        warmup_steps=number % 3,
        warmup_ratio=(0.0, 0.3)[number % 2],
        use_rslora=number in (1, 4, 6),
        batch_size=batch_size,
        max_length=(24, 10, 20)[number % 3],
        max_grad_norm=(1.0, 0.1, 0.0)[number % 3],
        seed=100 + number,
    )


@pytest.fixture(scope="module")
def oracle(bases: dict[str, Base], folder: Path) -> Oracle:
    """Weights of a job trained alone with PEFT; each is computed once."""

    @cache
    def train(family: str, number: int) -> dict[str, Tensor]:
        base, job = bases[family], make_job(folder, family, number)
        trainer = MultiLoraTrainer(base)
        load(trainer, job, folder)
        return train_alone(base, job, weights_of(trainer, job))

    return train


def load(trainer: MultiLoraTrainer, job: LoraJob, folder: Path) -> None:
    """Load a job and move its adapter far from its start, at which it is still without effect."""
    trainer.load(job, folder / "none")
    generator = torch.Generator().manual_seed(job.seed)
    for name, tensor in trainer.weights(job.id).items():
        if ".lora_B." in name:
            tensor.normal_(0, 0.3, generator=generator)


def train_together(trainer: MultiLoraTrainer, jobs: list[LoraJob], folder: Path) -> None:
    for job in jobs:
        load(trainer, job, folder)
    progress = trainer.train({job.id: 10**6 for job in jobs}, lambda progress: None)
    assert {state.state for state in progress.values()} == {"done"}


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [0, 1], ids=["plain", "checkpointing"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_unlike_adapters_come_out_as_if_alone(
    bases: dict[str, Base],
    folder: Path,
    oracle: Oracle,
    backend: str,
    family: str,
    checkpointing: int,
) -> None:
    jobs = [make_job(folder, family, number) for number in range(8)]
    trainer = MultiLoraTrainer(
        bases[family], backend=BACKENDS[backend], token_budget=96, checkpointing=checkpointing
    )
    train_together(trainer, jobs, folder)
    for number, job in enumerate(jobs):
        assert_close(weights_of(trainer, job), oracle(family, number))


@pytest.mark.slow
@pytest.mark.parametrize(
    "checkpointing",
    alternated([pytest.param(0, id="plain"), pytest.param(1, id="checkpointing")]),
)
def test_kernels_of_triton_give_what_peft_gives_alone(
    bases: dict[str, Base], folder: Path, oracle: Oracle, checkpointing: int
) -> None:
    # Few, as the interpreter is slow; with and without dropout, on other modules.
    numbers = (0, 3, 6)
    jobs = [make_job(folder, "llama", number) for number in numbers]
    trainer = MultiLoraTrainer(
        bases["llama"], backend="triton", token_budget=96, checkpointing=checkpointing
    )
    train_together(trainer, jobs, folder)
    for number, job in zip(numbers, jobs, strict=True):
        assert_close(weights_of(trainer, job), oracle("llama", number))


def test_modules_that_see_all_tokens_as_one_row_come_out_as_peft_alone(
    folder: Path, tmp_path: Path
) -> None:
    base = build_base(tmp_path, "qwen2_moe")
    modules = ("q_proj", "shared_expert.gate_proj", "shared_expert.down_proj")
    jobs = [
        replace(make_job(folder, "llama", number), target_modules=modules[number % 2 :])
        for number in range(3)
    ]
    trainer = MultiLoraTrainer(base, token_budget=96)
    train_together(trainer, jobs, folder)
    for job in jobs:
        alone = MultiLoraTrainer(base)
        load(alone, job, folder)
        assert_close(weights_of(trainer, job), train_alone(base, job, weights_of(alone, job)))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_token_accuracies_of_all_steps_are_those_of_transformers_logits(
    bases: dict[str, Base], folder: Path, family: str
) -> None:
    jobs = [
        replace(make_job(folder, family, number), epochs=6, learning_rate=0.01)
        for number in range(4)
    ]
    trainer = MultiLoraTrainer(bases[family], token_budget=96)
    alone = MultiLoraTrainer(bases[family])
    train_together(trainer, jobs, folder)
    for job in jobs:
        load(alone, job, folder)
        expected: list[float] = []
        train_alone(bases[family], job, weights_of(alone, job), accuracies=expected)
        found = [accuracy for *_, accuracy in trainer.curve(job.id)]
        assert found == expected
        assert max(found) > 0


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_number_of_adapters_comes_out_as_if_alone(
    bases: dict[str, Base], folder: Path, oracle: Oracle, backend: str, count: int
) -> None:
    jobs = [make_job(folder, "gpt2", number) for number in range(count)]
    trainer = MultiLoraTrainer(bases["gpt2"], backend=BACKENDS[backend], token_budget=1000)
    train_together(trainer, jobs, folder)
    for number, job in enumerate(jobs):
        assert_close(weights_of(trainer, job), oracle("gpt2", number))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_exact_mode_comes_out_as_peft_alone(
    bases: dict[str, Base], folder: Path, oracle: Oracle, family: str
) -> None:
    jobs = [make_job(folder, family, number) for number in (2, 3)]
    trainer = MultiLoraTrainer(bases[family], mode="exact")
    train_together(trainer, jobs, folder)
    for number, job in zip((2, 3), jobs, strict=True):
        assert_close(weights_of(trainer, job), oracle(family, number))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_the_cut_into_micro_batches_does_not_matter(
    bases: dict[str, Base], folder: Path, oracle: Oracle, budget: int
) -> None:
    jobs = [make_job(folder, "gpt2", number) for number in range(4)]
    trainer = MultiLoraTrainer(bases["gpt2"], token_budget=budget)
    train_together(trainer, jobs, folder)
    for number, job in enumerate(jobs):
        assert_close(weights_of(trainer, job), oracle("gpt2", number))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_base_in_bfloat16_learns_what_one_in_float32_does(
    bases: dict[str, Base], folder: Path, backend: str
) -> None:
    jobs = [make_job(folder, "llama", number) for number in range(4)]
    losses = []
    for base in (bases["llama"], load_base(bases["llama"].source, cache=folder, dtype="bfloat16")):
        trainer = MultiLoraTrainer(base, backend=BACKENDS[backend], token_budget=96)
        train_together(trainer, jobs, folder)
        losses.append([loss for job in jobs for *_, loss, _ in trainer.curve(job.id)])
        assert {weights.dtype for weights in trainer.weights(jobs[0].id).values()} == {
            torch.float32
        }
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=0.03)


def test_two_jobs_that_differ_in_their_seed_alone_come_out_different(
    bases: dict[str, Base], folder: Path
) -> None:
    first = replace(make_job(folder, "gpt2", 0), dropout=0.0)
    second = replace(first, id="other", seed=first.seed + 1)
    trainer = MultiLoraTrainer(bases["gpt2"])
    train_together(trainer, [first, second], folder)
    mine, other = weights_of(trainer, first), weights_of(trainer, second)
    assert all(not torch.allclose(mine[name], other[name], rtol=RTOL, atol=ATOL) for name in mine)


@pytest.mark.parametrize("budget", [1, 1000])
def test_the_gradient_of_a_batch_partly_trained_is_its_share_of_the_whole_mean(
    bases: dict[str, Base], folder: Path, budget: int
) -> None:
    # AdamW hides a wrong scale of the gradient; its checkpoint does not.
    job = replace(make_job(folder, "gpt2", 4), dropout=0.0, use_rslora=False)
    trainer = MultiLoraTrainer(bases["gpt2"], token_budget=budget)
    load(trainer, job, folder)
    trainer.train({job.id: 3}, lambda progress: None)
    trainer.save(job.id, 1)
    found = load_latest(folder / "none" / "checkpoints")
    assert found is not None

    model = plain_peft(bases["gpt2"], job)
    parameters = trained_parameters(model)
    for name, tensor in trainer.weights(job.id).items():
        parameters[name].data.copy_(tensor)
    rows = tokenize(read_dataset(job.data), bases["gpt2"].tokenizer, job.max_length).rows
    _, batch = next(optimizer_batches(rows, job))
    assert len(batch) == 5
    share = sum(row.num_trained_tokens for row in batch[:3])
    whole = sum(row.num_trained_tokens for row in batch)
    torch.autograd.backward(batch_loss(model, batch[:3]) * (share / whole))
    gradients = trainer.task(job.id).weights.named(found[0].tensors["gradient"])
    for name, parameter in parameters.items():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-4, atol=1e-6)
