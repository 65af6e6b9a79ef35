from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from auctune.train.base import load_base
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batching import BatchRow, MicroBatch
from auctune.train.multilora.step import ForwardBackward
from auctune.train.peak_memory import held_bytes, peak_bytes
from support.small_bases import build_base

CPU = torch.device("cpu")
WIDTH, MLP, KEYS, HEADS, RANK, NUM_TOKENS = 128, 256, 64, 4, 8, 256


def test_what_lives_at_the_same_time_is_counted_together() -> None:
    before = torch.zeros(1000)

    def work() -> None:
        a = torch.zeros(1000)  # 4,000 bytes
        b = a + before  # 8,000
        del a  # 4,000
        c = b * 2  # 8,000
        view = c[10:].view(-1, 2)  # a view takes nothing
        view.add_(1)
        torch.zeros(500)  # 10,000, and gone at once

    assert peak_bytes(work, CPU) == 10_000
    assert held_bytes(CPU) == 0


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=10))
def test_a_chain_holds_two_links_at_a_time(sizes: list[int]) -> None:
    def work() -> None:
        chain = [torch.zeros(0)]
        for size in sizes:
            chain[0] = torch.zeros(size)

    pairs = zip([0, *sizes], sizes, strict=False)
    assert peak_bytes(work, CPU) == 4 * max(a + b for a, b in pairs)


def test_what_a_backward_pass_needs_is_counted() -> None:
    layers = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))
    layers.requires_grad_(False)
    x = torch.ones(32, 64, requires_grad=True)
    one = 32 * 64 * 4

    def forward() -> None:
        with torch.no_grad():
            layers(x)

    def backward() -> None:
        torch.autograd.backward((layers(x) ** 2).sum())

    # A chain of frozen layers keeps nothing but two neighbours, the square its input.
    assert peak_bytes(forward, CPU) == 2 * one
    assert peak_bytes(backward, CPU) > 3 * one


def pass_bytes(folder: Path, num_layers: int) -> float:
    """Peak bytes a token of a pass that recomputes each layer, in bfloat16, without dropout."""
    build_base(folder, "llama", width=WIDTH, num_layers=num_layers)
    base = load_base(str(folder), cache=folder, dtype="bfloat16")
    adapted = AdaptedModel(base.fresh_model(), choose_backend("auto", base.device, base.dtype))
    step = ForwardBackward(adapted, checkpointing=1)
    job = LoraJob("a", folder / "none.jsonl", rank=RANK, dropout=0.0)
    adapted.add("a", lora_config(job, adapted.model), seed=0)
    ids = np.arange(64) % 60
    rows = [BatchRow("a", key, ids, ids, 1 / NUM_TOKENS) for key in range(NUM_TOKENS // 64)]
    batch = MicroBatch(tuple(rows), step.is_packed)
    # The first one makes what stays.
    step.train(batch)
    return peak_bytes(lambda: step.train(batch), CPU) / NUM_TOKENS


def test_memory_of_a_pass_is_what_docs_compute_for_a_large_base(tmp_path: Path) -> None:
    few, many = (pass_bytes(tmp_path / f"{layers}", layers) for layers in (2, 6))
    inputs = 2 * WIDTH
    layer = 16 * WIDTH + 8 * MLP + 4 * KEYS + 14 * RANK + 4 * HEADS + 8
    gradients = 2.5 * WIDTH + 4 * MLP
    assert many - few == pytest.approx(4 * inputs)
    assert few == pytest.approx(2 * inputs + layer + gradients, rel=0.03)
