"""Direct preference optimization, fused and alone: as by plain PEFT and the paper's formula."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from auctune.datasets import read_dataset
from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.epoch_sampler import EpochSampler
from auctune.train.job import LoraJob
from auctune.train.rows import TokenizedRow, split_pair, tokenize
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
from support.small_bases import FAMILIES, build_base, write_pairs, write_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

NUM_PAIRS = 10


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    return {family: build_base(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


def make_job(folder: Path, **changes: object) -> LoraJob:
    data = write_pairs(folder / "pairs.jsonl", NUM_PAIRS)
    return preference_job(data, "dpo", changes)


def train_pairs_alone(
    base: Base, job: LoraJob, start: dict[str, Tensor]
) -> tuple[dict[str, Tensor], list[float]]:
    def losses_of(
        model: nn.Module,
        reference: nn.Module,
        batch: list[tuple[int, TokenizedRow]],
        key_dropout: KeyDropout,
    ) -> Iterator[Tensor]:
        for place, pair in batch:
            ratios = []
            for half, row in enumerate(split_pair(pair)):
                key_dropout(2 * place + half)
                with torch.no_grad():
                    of_base = log_probability(reference, row)
                ratios.append(log_probability(model, row) - of_base)
            yield -logsigmoid(job.beta * (ratios[0] - ratios[1]))

    return train_preferences_alone(base, job, start, losses_of)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("mode", "is_started"), [("fused", 0), ("exact", 0), ("fused", 1)])
def test_pairs_come_out_as_by_the_formula_and_change_nothing_of_another_job(
    bases: dict[str, Base], tmp_path: Path, family: str, mode: str, is_started: int
) -> None:
    base = bases[family]
    job = make_job(tmp_path, **start_of(tmp_path, base, family) if is_started else {})
    other = LoraJob(
        "other", write_rows(tmp_path / "other.jsonl", 12, seed=3), rank=2, batch_size=3, epochs=2
    )
    trainer = MultiLoraTrainer(base, mode=mode, token_budget=100)  # type: ignore[arg-type]
    for one in (job, other):
        load(trainer, one, tmp_path)
    starts = [weights_of(trainer, one) for one in (job, other)]
    targets = {job.id: 2 * NUM_PAIRS, other.id: 24}
    progress = trainer.train(targets, lambda _: None)
    expected, losses = train_pairs_alone(base, job, starts[0])
    assert_close(weights_of(trainer, job), expected)
    assert [point[3] for point in progress[job.id].losses] == pytest.approx(losses, abs=1e-4)
    assert_close(weights_of(trainer, other), train_alone(base, other, starts[1]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_started", [False, True])
def test_pairs_come_out_as_by_trl(tmp_path: Path, is_started: bool) -> None:
    """TRL is no dependency: `pip install trl` for this test."""
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets")
    base = build_base(tmp_path / "base", "llama")
    base.tokenizer.chat_template = TEMPLATE
    # Batches of TRL's do not end where an epoch ends: no batch here goes over that.
    data = write_pairs(tmp_path / "twelve.jsonl", 12)
    start = start_of(tmp_path, base, "llama") if is_started else {}
    job = make_job(tmp_path, data=data, dropout=0.0, **start)
    trainer = MultiLoraTrainer(base)
    load(trainer, job, tmp_path)
    model = plain_peft(base, job)
    for name, parameter in trained_parameters(model).items():
        parameter.data.copy_(trainer.weights(job.id)[name])
    progress = trainer.train({job.id: 24}, lambda _: None)

    pairs = [json.loads(line) for line in data.read_text().splitlines()]
    settings = trl.DPOConfig(
        output_dir=str(tmp_path / "trl"), beta=job.beta, max_length=job.max_length, max_steps=6,
        per_device_train_batch_size=job.batch_size, learning_rate=job.learning_rate,
        lr_scheduler_type="constant", optim="adamw_torch", weight_decay=0.0,
        max_grad_norm=job.max_grad_norm, logging_steps=1, use_cpu=True, bf16=False,
        activation_checkpointing=False, report_to="none", save_strategy="no",
    )  # fmt: skip
    order = EpochSampler(len(pairs), job.epochs, job.seed).next_indices(24)
    examples = [
        {
            "prompt": pairs[index]["input"]["messages"],
            "chosen": pairs[index]["preferred_output"],
            "rejected": pairs[index]["non_preferred_output"],
        }
        for index in order
    ]
    oracle = trl.DPOTrainer(
        model,
        # By default it is the adapter's own start, as of a job with `start_from`.
        ref_model=None if is_started else base.fresh_model(),
        args=settings,
        processing_class=base.tokenizer,
        # Not shuffled, as it is read as a stream.
        train_dataset=datasets.IterableDataset.from_generator(examples.__iter__),
    )
    oracle.train()
    losses = [entry["loss"] for entry in oracle.state.log_history if "loss" in entry]
    assert [point[3] for point in progress[job.id].losses] == pytest.approx(losses, abs=1e-4)
    assert_close(
        weights_of(trainer, job), {k: v.detach() for k, v in trained_parameters(model).items()}
    )


@pytest.mark.slow
def test_pairs_go_on_after_a_cut_within_a_batch(bases: dict[str, Base], tmp_path: Path) -> None:
    base = bases["llama"]
    job = make_job(tmp_path, **start_of(tmp_path, base, "llama"))
    results = []
    for cuts in ((20,), (3, 9, 10, 17, 20)):
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


def test_the_validation_loss_is_that_of_pairs(bases: dict[str, Base], tmp_path: Path) -> None:
    base = bases["gpt2"]
    validation = write_pairs(tmp_path / "validation.jsonl", 6, seed=1)
    job = make_job(tmp_path, validation=validation, epochs=1)
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path / "job")
    progress = trainer.train({job.id: NUM_PAIRS + 6}, lambda _: None)[job.id]
    ((_, _, loss, accuracy),) = progress.validation
    model, reference = plain_peft(base, job).eval(), base.fresh_model()
    found = weights_of(trainer, job)
    for name, parameter in trained_parameters(model).items():
        parameter.data.copy_(found[name])
    losses, wins = [], []
    with torch.no_grad():
        for pair in tokenize(read_dataset(validation), base.tokenizer, job.max_length).rows:
            better, worse = (
                log_probability(model, row) - log_probability(reference, row)
                for row in split_pair(pair)
            )
            losses.append(-logsigmoid(job.beta * (better - worse)).item())
            wins.append(bool(better > worse))
    assert loss == pytest.approx(sum(losses) / len(losses), abs=1e-4)
    assert accuracy == pytest.approx(sum(wins) / len(wins))


def test_rows_and_method_must_go_together(bases: dict[str, Base], tmp_path: Path) -> None:
    pairs = make_job(tmp_path)
    texts = write_rows(tmp_path / "texts.jsonl", 4, seed=2)
    trainer = MultiLoraTrainer(bases["gpt2"])
    with pytest.raises(InputError, match="has chats, completions or texts, for method 'dpo'"):
        trainer.load(replace(pairs, data=texts), tmp_path / "none")
    with pytest.raises(InputError, match="has chats, completions or texts, for method 'dpo'"):
        trainer.load(replace(pairs, validation=texts), tmp_path / "none")
    with pytest.raises(InputError, match="has preferences"):
        trainer.load(replace(pairs, method="supervised", beta=0.1), tmp_path / "none")
