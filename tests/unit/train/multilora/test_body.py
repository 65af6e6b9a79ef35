"""Passes of a few sizes, which can be captured, against passes as they are."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig
from torch import Tensor

from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.attention import enable_packing
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.body import Body, BodyPass, TokenStream, _size
from auctune.train.multilora.dropout import row_key
from auctune.train.multilora.plan import Routing, TokenKeys
from support.small_bases import build_model
from support.thorough import drawn

CPU = torch.device("cpu")


def adapted_model(backend: str, device: torch.device = CPU) -> AdaptedModel:
    """A model with adapters of ranks 4, 8 and 3; the first and third drop features."""
    torch.manual_seed(0)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    model = build_model("llama").to(device, dtype).requires_grad_(False)
    adapted = AdaptedModel(model, choose_backend(backend, device, dtype))
    assert enable_packing(model)
    for number, rank in enumerate((4, 8, 3)):
        config = LoraConfig(task_type="CAUSAL_LM", r=rank, lora_dropout=(0.1, 0.0, 0.3)[number])
        adapted.add(str(number), config, seed=number).values.normal_(0, 0.1)
    return adapted


def stream_of(adapted: AdaptedModel, rows: list[tuple[int, int]], seed: int = 0) -> TokenStream:
    """Rows, each by its slot and length."""
    slots, lengths = zip(*rows, strict=True)
    starts = np.append(0, np.cumsum(lengths))
    positions = np.concatenate([np.arange(length) for length in lengths])
    keys = np.repeat([row_key(seed, row) for row in range(len(rows))], lengths)
    ids = np.random.default_rng(seed).integers(1, 60, starts[-1])
    routing = Routing.of_rows(adapted.adapters, slots, starts, TokenKeys(keys, positions))
    return TokenStream(ids[None], positions[None], lengths, routing, max(lengths))


def run(adapted: AdaptedModel, one: BodyPass, count: int) -> list[Tensor]:
    """Return hidden states of the first tokens, and the gradients of the adapters."""
    adapted.adapters.cast_values(range(3))
    with adapted.context.active(one.products):
        hidden = one.hidden()
        gradient = torch.zeros_like(hidden)
        generator = torch.Generator().manual_seed(1)
        values = torch.randn(count, hidden.shape[-1], generator=generator)
        gradient[0, :count] = values.to(gradient)
        torch.autograd.backward(hidden, gradient)
    found = [hidden.detach()[0, :count].clone()]
    for adapter in adapted.adapters.values():
        found.append(adapter.gradients.clone())
        adapter.gradients.zero_()
    return found


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[int, int]]:
    slots = sorted([*draw(st.lists(st.sampled_from([-1, 0, 1, 2]), max_size=5)), 1])
    return [(slot, draw(st.integers(1, 30))) for slot in slots]


@pytest.fixture(scope="module")
def loop() -> AdaptedModel:
    return adapted_model("loop")


@drawn(10)
@given(some=rows())
def test_filling_a_pass_up_to_a_size_changes_nothing(
    loop: AdaptedModel, some: list[tuple[int, int]]
) -> None:
    check_filled(loop, some)


@pytest.mark.slow
def test_filling_up_changes_nothing_of_what_kernels_of_triton_compute() -> None:
    check_filled(adapted_model("triton"), [(-1, 3), (0, 20), (1, 9), (1, 5), (2, 4)])


def check_filled(adapted: AdaptedModel, some: list[tuple[int, int]]) -> None:
    stream, body = stream_of(adapted, some), Body(adapted, uses_graphs=False)
    count = stream.routing.num_tokens
    expected = run(adapted, body.prepare(stream), count)
    filled = stream.filled()
    assert filled.routing.num_tokens == sum(filled.lengths or ()) == _size(count)
    assert max(filled.lengths or ()) <= filled.longest
    for one, other in zip(run(adapted, body.prepare(filled), count), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_sizes_are_few_and_little_is_filled_up() -> None:
    sizes = {_size(count) for count in range(1, 4097)}
    assert len(sizes) <= 8 * 8
    assert all(count <= _size(count) <= max(count + 16, 1.13 * count) for count in range(1, 4097))


def test_arrays_of_filled_passes_have_sizes_by_powers_of_two() -> None:
    adapted = adapted_model("triton")
    shapes = set()
    for some in ([(0, 17), (1, 30)], [(0, 29), (2, 18)], [(1, 20), (2, 27)]):
        stream = stream_of(adapted, some).filled()
        arrays = [*stream.arrays(), *adapted.backend.arrays(stream.routing)]
        shapes.add(tuple((one.shape, one.dtype) for one in arrays))
    assert len(shapes) == 1


def test_an_adapter_that_comes_is_where_captured_passes_look() -> None:
    adapted = adapted_model("triton")
    keys = []
    for name in ("other", "yet another"):
        routing = stream_of(adapted, [(1, 5)]).routing
        keys.append(adapted.backend.graph_key(routing))
        adapted.add(name, LoraConfig(task_type="CAUSAL_LM", r=3), seed=0)
    assert keys[0] == keys[1]


def test_graphs_are_of_the_layers_that_adapters_are_on() -> None:
    adapted = adapted_model("triton")
    routing = stream_of(adapted, [(1, 5)]).routing
    config = LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["q_proj"])
    slot = adapted.adapters.slot(adapted.add("on queries", config, seed=0).name)
    other = stream_of(adapted, [(slot, 5)]).routing
    assert adapted.backend.graph_key(other) != adapted.backend.graph_key(routing)


def test_an_adapter_that_moves_in_memory_is_found_there() -> None:
    adapted = adapted_model("triton")
    backend: Any = adapted.backend
    routing = stream_of(adapted, [(1, 5)]).routing
    backend.graph_key(routing)
    flat = adapted.adapters["1"].gradients
    flat.data = torch.zeros(len(flat))
    backend.graph_key(routing)
    assert backend._table.gradients[1] == flat.data_ptr()


def test_what_else_is_loaded_changes_nothing_of_a_pass() -> None:
    adapted = adapted_model("triton")
    backend: Any = adapted.backend
    routing = stream_of(adapted, [(1, 5)]).routing
    before = backend._table_of(routing)
    adapted.add("large", LoraConfig(task_type="CAUSAL_LM", r=70), seed=0)
    after = backend._table_of(stream_of(adapted, [(1, 5)]).routing)
    assert (after.padded_rank, after.rank_tile) == (before.padded_rank, before.rank_tile)


def test_the_base_alone_runs_before_there_is_any_adapter() -> None:
    model = build_model("llama").requires_grad_(False)
    adapted = AdaptedModel(model, choose_backend("triton", CPU, torch.float32))
    assert enable_packing(model)
    stream = stream_of(adapted, [(-1, 5)])
    one = Body(adapted, uses_graphs=False).prepare(stream)
    with adapted.context.active(one.products), torch.no_grad():
        assert one.hidden().shape[:2] == (1, 5)


def test_passes_whose_attention_knows_the_lengths_of_rows_are_not_captured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # As here, and in float32 on CUDA: a graph would have the rows of the pass that it was made of.
    adapted = adapted_model("triton")
    tried, plain = (Body(adapted, uses_graphs=uses) for uses in (True, False))
    for seed in range(4):
        stream = stream_of(adapted, [(0, 5), (1, 6)], seed)
        found, expected = (run(adapted, body.prepare(stream), 11) for body in (tried, plain))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
    assert not tried.num_graphs
    (record,) = caplog.records
    assert "attention is computed row by row" in record.getMessage()


@pytest.mark.gpu
def test_captured_passes_are_those_that_are_not() -> None:
    device = torch.device("cuda", 0)
    adapted = adapted_model("triton", device)
    captured, eager = (Body(adapted, uses_graphs=uses) for uses in (True, False))
    for seed in range(8):
        some = [(0, 17 + seed % 3), (1, 30), (2, 11)]
        if seed == 6:
            # Its table is written anew, to where graphs read it.
            adapted.remove("2")
            adapted.add("2", LoraConfig(task_type="CAUSAL_LM", r=3), seed=9).values.normal_(0, 0.1)
        stream = stream_of(adapted, some, seed)
        count = stream.routing.num_tokens
        expected = run(adapted, eager.prepare(stream), count)
        found = run(adapted, captured.prepare(stream), count)
        assert captured.num_graphs == (seed >= 2)
        for one, other in zip(found, expected, strict=True):
            assert (one - other).norm() <= 0.02 * other.norm()
    assert captured.release()
    assert not captured.num_graphs
