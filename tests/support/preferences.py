"""What tests of methods that learn from preferences compare with."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor, nn

from auctune.datasets import read_dataset
from auctune.train.base import Base
from auctune.train.epoch_sampler import EpochSampler
from auctune.train.job import LoraJob
from auctune.train.multilora.dropout import row_key
from auctune.train.rows import TokenizedRow, tokenize
from auctune.train.trainer import MultiLoraTrainer
from support.peft_alone import plain_peft, replace_dropouts, trained_parameters

TEMPLATE = """{% for message in messages %}{{ message.content + " " }}\
{% if message.role == "assistant" %}{{ eos_token }}{% endif %}{% endfor %}"""


KeyDropout = Callable[[int], None]
"""Has dropout drop what the row of this number drops."""
BatchLosses = Callable[
    [nn.Module, nn.Module, list[tuple[int, TokenizedRow]], KeyDropout], Iterable[Tensor]
]
"""The losses of a batch of rows, each with its place, by the model and the one to keep close to."""


def preference_job(data: Path, method: str, changes: dict[str, object]) -> LoraJob:
    job = LoraJob(
        id=method,
        data=data,
        method=method,  # type: ignore[arg-type]
        beta=0.3,
        epochs=2,
        rank=4,
        learning_rate=3e-3,
        batch_size=4,
        max_length=24,
        schedule="constant",
        dropout=0.2,
        seed=5,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def train_preferences_alone(
    base: Base, job: LoraJob, start: dict[str, Tensor], losses_of: BatchLosses
) -> tuple[dict[str, Tensor], list[float]]:
    """Weights and losses by steps, with one row in a pass."""
    model, reference = plain_peft(base, job), reference_of(base, job)
    weights = trained_parameters(model)
    for name, parameter in weights.items():
        parameter.data.copy_(start[name])
    dropouts = replace_dropouts(model, job)

    def key_dropout(number: int) -> None:
        for dropout in dropouts:
            dropout.row_keys = torch.tensor([row_key(job.seed, number)])

    rows = tokenize(read_dataset(job.data), base.tokenizer, job.max_length).rows
    optimizer = torch.optim.AdamW(weights.values(), lr=job.learning_rate, weight_decay=0.0)
    sampler = EpochSampler(len(rows), job.epochs, job.seed)
    losses = []
    while sampler.remaining:
        first = sampler.done
        size = min(job.batch_size, len(rows) - first % len(rows))
        places = enumerate(sampler.next_indices(size), first)
        batch = [(place, rows[index]) for place, index in places]
        loss = torch.zeros(())
        for one in losses_of(model, reference, batch, key_dropout):
            loss = loss + one / size
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(weights.values(), job.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {name: parameter.detach() for name, parameter in weights.items()}, losses


def log_probability(model: nn.Module, row: TokenizedRow) -> Tensor:
    logits = model(input_ids=torch.from_numpy(row.input_ids).unsqueeze(0)).logits[0]
    labels = torch.from_numpy(row.labels)[1:]
    chosen = labels != -100
    found = logits[:-1][chosen].log_softmax(-1).gather(1, labels[chosen].unsqueeze(1)).sum()
    assert isinstance(found, Tensor)
    return found


def reference_of(base: Base, job: LoraJob) -> nn.Module:
    """The model that a job of preferences keeps close to."""
    model: nn.Module = base.fresh_model()
    return model if job.start_from is None else PeftModel.from_pretrained(model, job.start_from)


def load(trainer: MultiLoraTrainer, job: LoraJob, folder: Path) -> None:
    """Load a job, a new adapter far from its start."""
    trainer.load(job, folder / "none")
    if job.start_from is not None:
        return
    generator = torch.Generator().manual_seed(job.seed)
    for name, tensor in trainer.weights(job.id).items():
        if ".lora_B." in name:
            tensor.normal_(0, 0.3, generator=generator)
