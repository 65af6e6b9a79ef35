"""The oracle: one job trained alone by plain PEFT, torch's AdamW and transformers' schedules."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora.layer import LoraLayer
from torch import Tensor, nn
from transformers import get_scheduler

from auctune.datasets import read_dataset
from auctune.train.base import Base
from auctune.train.epoch_sampler import EpochSampler
from auctune.train.job import LoraJob
from auctune.train.multilora.dropout import (
    keep_mask,
    keep_scale,
    layer_key,
    num_dropped_levels,
    row_key,
)
from auctune.train.rows import TokenizedRow, tokenize
from auctune.train.trainer import MultiLoraTrainer

# What weights may differ by after a few steps of AdamW in float32.
RTOL, ATOL = 2e-4, 2e-5


class KeyedDropout(nn.Module):
    """Takes the place of PEFT's dropout; the rows of the running batch are told to it."""

    def __init__(self, layer: str, probability: float) -> None:
        super().__init__()
        self.key = layer_key(layer)
        self.probability = probability
        self.row_keys = torch.zeros(0, dtype=torch.int64)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        # Some modules are given all tokens as one row of tokens.
        width = x.shape[:-1].numel() // len(self.row_keys)
        keys = self.row_keys.repeat_interleave(width)
        positions = torch.arange(width).repeat(len(self.row_keys))
        dropped = torch.full_like(keys, num_dropped_levels(self.probability))
        mask = keep_mask(keys, positions, self.key, dropped, x.shape[-1])
        return x * mask.view_as(x) * keep_scale(self.probability)


def weights_of(trainer: MultiLoraTrainer, job: LoraJob) -> dict[str, Tensor]:
    """Copies of the weights of a job's adapter as they are now."""
    return {name: tensor.clone() for name, tensor in trainer.weights(job.id).items()}


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Make sure that weights by name are equal but for rounding."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=RTOL, atol=ATOL)


def train_alone(
    base: Base,
    job: LoraJob,
    start: dict[str, Tensor],
    num_steps: int | None = None,
    accuracies: list[float] | None = None,
) -> dict[str, Tensor]:
    """The adapter's weights after `num_steps` steps, all of the job's by default.

    Args:
        start: the adapter's first weights, by their names in the base.
        accuracies: gets the token accuracy of each step's batch, before the step.
    """
    model = plain_peft(base, job)
    weights = trained_parameters(model)
    assert weights.keys() == start.keys()
    for name, parameter in weights.items():
        parameter.data.copy_(start[name])
    dropouts = replace_dropouts(model, job)
    rows = tokenize(read_dataset(job.data), base.tokenizer, job.max_length).rows
    batches = list(optimizer_batches(rows, job))
    optimizer = torch.optim.AdamW(
        weights.values(), lr=job.learning_rate, weight_decay=job.weight_decay
    )
    schedule = get_scheduler(
        "constant_with_warmup" if job.schedule == "constant" else job.schedule,
        optimizer,
        num_warmup_steps=job.warmup_steps or math.ceil(job.warmup_ratio * len(batches)),
        num_training_steps=len(batches),
    )
    for first, batch in batches[:num_steps]:
        for dropout in dropouts:
            dropout.row_keys = torch.tensor(
                [row_key(job.seed, first + place) for place in range(len(batch))]
            )
        if accuracies is not None:
            accuracies.append(batch_accuracy(model, batch))
        torch.autograd.backward(batch_loss(model, batch))
        if job.max_grad_norm:
            nn.utils.clip_grad_norm_(weights.values(), job.max_grad_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return {name: parameter.detach() for name, parameter in weights.items()}


def trained_parameters(model: PeftModel) -> dict[str, nn.Parameter]:
    """The adapter's parameters by their names in the base."""
    return {
        name.removeprefix("base_model.model.").replace(".default", ""): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def plain_peft(base: Base, job: LoraJob) -> PeftModel:
    config = LoraConfig(
        r=job.rank,
        lora_alpha=job.alpha,
        lora_dropout=job.dropout,
        use_rslora=job.use_rslora,
        target_modules=list(job.target_modules) or "all-linear",
        fan_in_fan_out=base.model.config.model_type == "gpt2",
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base.fresh_model(), config)
    assert isinstance(model, PeftModel)
    return model.train()


def replace_dropouts(model: PeftModel, job: LoraJob) -> list[KeyedDropout]:
    dropouts = []
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLayer) and job.dropout:
            keyed = KeyedDropout(name.removeprefix("base_model.model."), job.dropout)
            layer.lora_dropout["default"] = keyed
            dropouts.append(keyed)
    return dropouts


def optimizer_batches(
    rows: Sequence[TokenizedRow], job: LoraJob
) -> Iterator[tuple[int, list[TokenizedRow]]]:
    """Each batch with the number of rows before it; none reaches from one epoch into the next."""
    sampler = EpochSampler(len(rows), job.epochs, job.seed)
    while sampler.remaining:
        first = sampler.done
        size = min(job.batch_size, len(rows) - first % len(rows))
        yield first, [rows[index] for index in sampler.next_indices(size)]


def batch_loss(model: PeftModel, batch: list[TokenizedRow]) -> Tensor:
    # transformers' own loss: the mean over the trained tokens of the batch.
    loss = _outputs(model, batch)[0].loss
    assert isinstance(loss, Tensor)
    return loss


def batch_accuracy(model: PeftModel, batch: list[TokenizedRow]) -> float:
    """Share of the trained tokens of a batch that are the likeliest one."""
    outputs, labels = _outputs(model, batch)
    labels = labels[:, 1:]
    chosen = labels != -100
    hits = outputs.logits[:, :-1].argmax(-1)[chosen] == labels[chosen]
    return int(hits.sum()) / len(hits)


def _outputs(model: PeftModel, batch: list[TokenizedRow]) -> tuple[Any, Tensor]:
    """What the model says of a batch, and its labels."""
    width = max(map(len, batch))
    ids = torch.zeros(len(batch), width, dtype=torch.int64)
    labels = torch.full_like(ids, -100)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(batch):
        ids[index, : len(row)] = torch.from_numpy(row.input_ids)
        labels[index, : len(row)] = torch.from_numpy(row.labels)
        mask[index, : len(row)] = 1
    return model(input_ids=ids, attention_mask=mask, labels=labels), labels
