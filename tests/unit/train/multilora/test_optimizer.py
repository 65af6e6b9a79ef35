import math
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import get_scheduler

from auctune.domain.training import RateSchedule
from auctune.train.job import LoraJob
from auctune.train.multilora.optimizer import AdapterOptimizer, rate_factor
from auctune.train.multilora.weights import FlatAdapter

SHAPES = {"a": (3, 5), "b": (4, 3)}


def make_job(**changes: object) -> LoraJob:
    return LoraJob("job", Path("data.jsonl"), **changes)  # type: ignore[arg-type]


def make_weights() -> FlatAdapter:
    values = torch.randn(27, generator=torch.Generator().manual_seed(0))
    return FlatAdapter(SHAPES, values, torch.zeros(27))


@pytest.mark.parametrize("warmup", [0, 1, 4])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_rates_are_those_of_transformers_schedules(schedule: RateSchedule, warmup: int) -> None:
    job = make_job(schedule=schedule, warmup_steps=warmup)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    name = "constant_with_warmup" if schedule == "constant" else schedule
    expected = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=12)
    by_ratio = make_job(schedule=schedule, warmup_ratio=(warmup - 0.5) / 12 if warmup else 0.0)
    for step in range(12):
        assert rate_factor(job, step, 12) == pytest.approx(expected.get_last_lr()[0])
        assert rate_factor(by_ratio, step, 12) == rate_factor(job, step, 12)
        optimizer.step()
        expected.step()


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.5, 100.0])
def test_steps_on_the_flat_tensor_are_adamws_on_each_parameter(max_grad_norm: float) -> None:
    job = make_job(learning_rate=0.1, weight_decay=0.2, warmup_steps=1, max_grad_norm=max_grad_norm)
    weights = make_weights()
    copies = [nn.Parameter(one.clone()) for one in weights.named(weights.values).values()]
    gradients = weights.named(weights.gradients).values()
    mine = AdapterOptimizer(job, weights.values, weights.gradients, num_steps=6)
    reference = torch.optim.AdamW(copies, weight_decay=0.2)
    for step in range(6):
        generator = torch.Generator().manual_seed(step)
        for gradient, copy in zip(gradients, copies, strict=True):
            gradient.normal_(generator=generator)
            copy.grad = gradient.clone()
        norm = nn.utils.clip_grad_norm_(copies, max_grad_norm or math.inf)
        reference.param_groups[0]["lr"] = 0.1 * rate_factor(job, step, 6)
        reference.step()
        torch.testing.assert_close(mine.clip(), norm)
        mine.step(step)
        assert not weights.gradients.any()
    for values, copy in zip(weights.named(weights.values).values(), copies, strict=True):
        torch.testing.assert_close(values, copy.detach())
    assert mine.moments["step"].item() == 6


def test_memory_is_that_of_four_numbers_a_parameter() -> None:
    optimizer = AdapterOptimizer(make_job(), torch.zeros(27), torch.zeros(27), num_steps=1)
    assert optimizer.num_bytes == 4 * 27 * 4 + 4
