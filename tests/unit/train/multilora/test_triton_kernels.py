"""Kernels against float64 formulas: interpreted on a CPU, compiled where a GPU runs `make gpu`."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from auctune.train.multilora.dropout import (
    keep_mask,
    keep_scale,
    layer_key,
    num_dropped_levels,
    row_key,
)
from auctune.train.multilora.segment_backends import LayerSegment, LoopBackend
from auctune.train.multilora.transfer import write_buffer
from auctune.train.multilora.triton_kernels import (
    AdapterTable,
    Dropout,
    TokenBlocks,
    block_arrays,
    lora_backward,
    lora_down,
    lora_up,
)
from auctune.train.multilora.weights import LayerFactors
from support.thorough import drawn

on_each_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)
ROOT = Path(__file__).parents[4]
ROW_LENGTH = 7
LAYERS = ("q_proj", "up_proj")


@dataclass(frozen=True)
class Case:
    """Adapters of some ranks, and the tokens of each; `on_layer` are those with a matrix there."""

    ranks: tuple[int, ...]
    segments: tuple[tuple[int, int, int], ...]
    num_tokens: int
    in_features: int
    out_features: int
    rates: tuple[float, ...]
    on_layer: tuple[bool, ...]
    first_offset: int = 0

    @property
    def scales(self) -> list[float]:
        return [(1 + n / 2) * keep_scale(rate) for n, rate in enumerate(self.rates)]


MIXED = Case(
    ranks=(4, 20, 33, 16),
    segments=((2, 22, 1), (22, 27, 0), (30, 35, 1), (35, 54, 2)),
    num_tokens=55,
    in_features=72,
    out_features=50,
    rates=(0.1, 0.0, 0.5, 0.0),
    on_layer=(True, True, False, True),
)


class Adapters:
    """Flat weights and gradients of a case's adapters, in two layers, and their table."""

    def __init__(self, case: Case, dtype: torch.dtype, device: str) -> None:
        self.case = case
        generator = torch.Generator().manual_seed(1)
        self.weights: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self.offsets = np.full((len(LAYERS), len(case.ranks), 2), -1, np.int64)
        for slot, rank in enumerate(case.ranks):
            size = case.first_offset
            for layer in range(len(LAYERS)):
                if layer == 1 or case.on_layer[slot]:
                    self.offsets[layer, slot] = size, size + rank * case.in_features
                    size += rank * (case.in_features + case.out_features)
            self.weights.append(torch.randn(size, generator=generator).to(device, dtype))
            self.gradients.append(torch.randn(size, generator=generator).to(device))
        self.table = AdapterTable.build(
            self.weights,
            self.gradients,
            self.offsets,
            np.array(case.ranks, np.int32),
            np.array(list(map(layer_key, LAYERS))),
            torch.device(device),
        )

    def matrices(self, flat: list[Tensor], layer: int, slot: int) -> tuple[Tensor, Tensor] | None:
        """Return A [rank, in] and B [out, rank], views."""
        at_a, at_b = self.offsets[layer, slot].tolist()
        if at_a < 0:
            return None
        case, rank = self.case, self.case.ranks[slot]
        lora_a = flat[slot][at_a : at_a + rank * case.in_features].view(rank, -1)
        return lora_a, flat[slot][at_b : at_b + rank * case.out_features].view(-1, rank)


def build_blocks(
    segments: tuple[tuple[int, int, int], ...],
    scales: list[float],
    device: str,
    dropout: Dropout | None = None,
    *,
    max_tokens: int,
    max_segments: int,
    buffer: Tensor | None = None,
) -> tuple[TokenBlocks, Tensor]:
    """Return blocks, and the device memory that they are in."""
    table = np.array(segments, np.int32).reshape(-1, 3)
    arrays = block_arrays(
        table,
        np.array(scales, np.float32),
        dropout,
        max_tokens=max_tokens,
        max_segments=max_segments,
    )
    buffer, tensors = write_buffer(arrays, torch.device(device), buffer)
    return TokenBlocks.of(table, tensors, max_tokens=max_tokens), buffer


def blocks_of(case: Case, device: str, buffer: Tensor | None = None) -> tuple[TokenBlocks, Tensor]:
    places = np.arange(case.num_tokens)
    dropout = Dropout(
        np.array([row_key(3, place // ROW_LENGTH) for place in range(case.num_tokens)]),
        (places % ROW_LENGTH).astype(np.int32),
        np.array([num_dropped_levels(rate) for rate in case.rates], np.int32),
    )
    return build_blocks(
        case.segments,
        case.scales,
        device,
        dropout if any(case.rates) else None,
        max_tokens=case.num_tokens + 20,
        max_segments=len(case.segments) + 1,
        buffer=buffer,
    )


def mask_of(case: Case, layer: int, slot: int, tokens: slice) -> Tensor:
    """Return the mask [tokens, in] that `keep_mask` gives."""
    places = torch.arange(case.num_tokens)
    keys = torch.tensor([row_key(3, place // ROW_LENGTH) for place in range(case.num_tokens)])
    levels = torch.full_like(keys, num_dropped_levels(case.rates[slot]))
    key = layer_key(LAYERS[layer])
    mask = keep_mask(keys, places % ROW_LENGTH, key, levels, case.in_features)
    return mask[tokens].double()


@dataclass(frozen=True)
class Pass:
    """Inputs of a layer in a pass, of which y and the gradient of x are changed in place."""

    x: Tensor
    y: Tensor
    y_gradient: Tensor
    x_gradient: Tensor

    @classmethod
    def draw(cls, case: Case, dtype: torch.dtype, device: str) -> "Pass":
        generator = torch.Generator().manual_seed(2)
        features = (case.in_features, case.out_features, case.out_features, case.in_features)
        return cls(
            *(
                torch.randn(case.num_tokens, size, generator=generator).to(device, dtype)
                for size in features
            )
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> "Pass":
        return Pass(*(function(tensor) for tensor in vars(self).values()))


def run(adapters: Adapters, layer: int, blocks: TokenBlocks, inputs: Pass) -> None:
    x, y, y_gradient, x_gradient = vars(inputs).values()
    hidden = lora_down(x, adapters.table, layer, blocks)
    lora_up(y, hidden, adapters.table, layer, blocks)
    lora_backward(y_gradient, x, hidden, x_gradient, adapters.table, layer, blocks)


def add_expected(
    adapters: Adapters, weights: list[Tensor], gradients: list[Tensor], layer: int, inputs: Pass
) -> None:
    """Do to tensors on the CPU, in float64, what `run` does."""
    case = adapters.case
    for first, end, slot in case.segments:
        matrices = adapters.matrices(weights, layer, slot)
        sums = adapters.matrices(gradients, layer, slot)
        if matrices is None or sums is None:
            continue
        (lora_a, lora_b), tokens, scale = matrices, slice(first, end), case.scales[slot]
        mask = mask_of(case, layer, slot, tokens)
        dropped_x, y_gradient = inputs.x[tokens] * mask, inputs.y_gradient[tokens]
        hidden, hidden_gradient = scale * dropped_x @ lora_a.t(), scale * y_gradient @ lora_b
        inputs.y[tokens] += hidden @ lora_b.t()
        inputs.x_gradient[tokens] += (hidden_gradient @ lora_a) * mask
        sums[0].add_(hidden_gradient.t() @ dropped_x)
        sums[1].add_(y_gradient.t() @ hidden)


def check(case: Case, dtype: torch.dtype, device: str, layers: tuple[int, ...]) -> None:
    """Compare a pass through each of the layers with the formulas."""
    adapters = Adapters(case, dtype, device)
    weights, expected_sums = (
        [tensor.cpu().double() for tensor in tensors]
        for tensors in (adapters.weights, adapters.gradients)
    )
    # A rounding error is bounded by the sum of the magnitudes of the terms. The interpreter cuts
    # bfloat16 off where a GPU rounds: twice the error.
    allowed = 4 * torch.finfo(dtype).eps
    sum_sizes = [torch.zeros_like(tensor) for tensor in weights]
    buffer = None
    for layer in layers:
        blocks, buffer = blocks_of(case, device, buffer)
        inputs = Pass.draw(case, dtype, device)
        before = inputs.map(lambda tensor: tensor.cpu().double())
        expected, sizes = before.map(Tensor.clone), before.map(Tensor.abs)
        run(adapters, layer, blocks, inputs)
        add_expected(adapters, weights, expected_sums, layer, expected)
        add_expected(adapters, [one.abs() for one in weights], sum_sizes, layer, sizes)
        found = inputs.map(lambda tensor: tensor.cpu().double())
        outside = torch.ones(case.num_tokens, dtype=torch.bool)
        for first, end, slot in case.segments:
            outside[first:end] = adapters.matrices(weights, layer, slot) is None
        for name in ("y", "x_gradient"):
            values, as_before = getattr(found, name), getattr(before, name)
            error = (values - getattr(expected, name)).abs()
            assert (error <= allowed * getattr(sizes, name)).all(), name
            assert torch.equal(values[outside], as_before[outside])
    for sums, expected_sum, size in zip(adapters.gradients, expected_sums, sum_sizes, strict=True):
        error = (sums.cpu().double() - expected_sum).abs()
        assert (error <= allowed * size + 1e-6 * expected_sum.abs()).all()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few tokens, since the interpreter is slow; adapters in any order, in pieces, or absent."""
    count = draw(st.integers(1, 3))
    segments, place = [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 3))):
        end = place + draw(st.integers(1, 35))
        segments.append((place, end, draw(st.integers(0, count - 1))))
        place = end + draw(st.sampled_from([0, 0, 3]))
    return Case(
        ranks=tuple(draw(st.sampled_from([1, 4, 8, 16, 17, 33])) for _ in range(count)),
        segments=tuple(segments),
        num_tokens=place + draw(st.integers(1, 3)),
        in_features=draw(st.integers(1, 70)),
        out_features=draw(st.integers(1, 70)),
        rates=tuple(draw(st.sampled_from([0.0, 0.0, 0.3])) for _ in range(count)),
        on_layer=tuple(draw(st.booleans()) for _ in range(count)),
        first_offset=draw(st.sampled_from([0, 3])),
    )


@on_each_device
@drawn(40)
@given(case=cases(), layer=st.sampled_from([0, 1]))
def test_values_are_those_of_the_formulas(device: str, case: Case, layer: int) -> None:
    check(case, torch.float32, device, (layer,))


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_passes_in_small_types_add_up_in_float32(
    device: str, dtype: torch.dtype
) -> None:
    check(MIXED, dtype, device, (1, 1))


@on_each_device
def test_values_are_those_of_one_product_a_segment(device: str) -> None:
    case = replace(MIXED, rates=(0.0, 0.0, 0.0, 0.0))
    adapters, inputs = Adapters(case, torch.float32, device), Pass.draw(case, torch.float32, device)
    expected, segments = inputs.map(Tensor.clone), []
    scale = expected.x.new_zeros(case.num_tokens, 1)
    for first, end, slot in case.segments:
        matrices = adapters.matrices(adapters.weights, 1, slot)
        gradients = adapters.matrices([one.clone() for one in adapters.gradients], 1, slot)
        assert matrices is not None
        assert gradients is not None
        segments.append(LayerSegment(first, end, LayerFactors(*matrices, *gradients)))
        scale[first:end] = case.scales[slot]
    run(adapters, 1, blocks_of(case, device)[0], inputs)
    LoopBackend().forward(expected.y, expected.x, segments, scale)
    torch.testing.assert_close(inputs.y, expected.y, rtol=1e-5, atol=1e-4)


@on_each_device
def test_tokens_that_are_no_numbers_leave_other_adapters_alone(device: str) -> None:
    adapters = Adapters(MIXED, torch.float32, device)
    inputs = Pass.draw(MIXED, torch.float32, device)
    bad = slice(22, 27)
    inputs.x[bad] = inputs.y_gradient[bad] = torch.nan
    run(adapters, 1, blocks_of(MIXED, device)[0], inputs)
    for tensor in (inputs.y, inputs.x_gradient):
        assert tensor[bad].isnan().any()
        assert tensor[:22].isfinite().all()
        assert tensor[27:].isfinite().all()
    assert [bool(one.isfinite().all()) for one in adapters.gradients] == [False, True, True, True]


@pytest.mark.gpu
@pytest.mark.parametrize("rank", [16, 128])
def test_equal_inputs_give_equal_bits_and_values_at_the_sizes_of_large_models(rank: int) -> None:
    case = Case(
        ranks=(rank, 4, 16),
        segments=((0, 1500, 0), (1500, 1507, 1), (1600, 4096, 2)),
        num_tokens=4096,
        in_features=4096,
        out_features=1024,
        rates=(0.1, 0.0, 0.0),
        on_layer=(True, True, True),
    )
    check(case, torch.bfloat16, "cuda", (0,))
    results = []
    for _ in range(2):
        adapters = Adapters(case, torch.bfloat16, "cuda")
        inputs = Pass.draw(case, torch.bfloat16, "cuda")
        run(adapters, 0, blocks_of(case, "cuda")[0], inputs)
        results.append([*vars(inputs).values(), *adapters.gradients])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_tables_have_equal_sizes_whatever_the_segments() -> None:
    def build(*segments: tuple[int, int, int]) -> tuple[TokenBlocks, Tensor]:
        return build_blocks(segments, [1.0, 2.0], "cpu", max_tokens=5000, max_segments=3)

    one, one_buffer = build((0, 5000, 1))
    other, other_buffer = build((0, 2, 1), (7, 4000, 0), (4000, 4999, 1))
    assert len(one_buffer) == len(other_buffer)
    assert one.blocks.shape == other.blocks.shape
    # Tokens of each slot, in order and without a gap, in blocks that are not too long.
    for built, expected in ((one, [(0, 5000, 1)]), (other, other.segments.tolist())):
        merged: list[list[int]] = []
        for first, end, slot in built.blocks.tolist():
            assert 0 <= end - first <= built.size
            if merged and merged[-1][1:] == [first, slot]:
                merged[-1][1] = end
            elif end:
                merged.append([first, end, slot])
        assert [tuple(block) for block in merged] == [tuple(segment) for segment in expected]
    assert other.segment_starts.tolist() == [0, 1, 3]
    with pytest.raises(ValueError, match="broadcast"):
        build((0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 4, 0))


@pytest.mark.gpu
def test_a_captured_graph_computes_the_next_pass_and_nothing_waits_for_the_device() -> None:
    case, moved = MIXED, replace(MIXED, segments=((0, 3, 2), (3, 40, 0), (41, 55, 1)))
    graphed, eager = (Adapters(case, torch.bfloat16, "cuda") for _ in range(2))
    inputs, expected = (Pass.draw(case, torch.bfloat16, "cuda") for _ in range(2))
    blocks, buffer = blocks_of(case, "cuda")
    # Kernels are compiled by a pass on tensors of its own.
    run(Adapters(case, torch.bfloat16, "cuda"), 1, blocks, inputs.map(Tensor.clone))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(graphed, 1, blocks, inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for now in (case, moved):
            blocks_of(now, "cuda", buffer)
            graph.replay()
            run(eager, 1, blocks_of(now, "cuda")[0], expected)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for one, other in zip(vars(inputs).values(), vars(expected).values(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(graphed.gradients, eager.gradients, strict=True):
        assert torch.equal(one, other)


COMPILE = """
import sys
import numpy as np
import torch
from auctune.train.multilora import triton_kernels as kernels
from auctune.train.multilora.triton_kernels import AdapterTable, Dropout, TokenBlocks, block_arrays
from support.h100_compiler import compile_for_h100

names = ("_project_down", "_project_up", "_sum_outer_products")
compiled = compile_for_h100(kernels, names)
cpu, dtype, rank, size = torch.device("cpu"), getattr(torch, sys.argv[1]), int(sys.argv[2]), 4096
weights = [torch.empty(2 * rank * size, dtype=dtype)]
offsets = np.array([[[0, rank * size]]] * 20)
gradients = [one.float() for one in weights]
ranks, keys = np.array([rank], np.int32), np.array([5] * 20)
table = AdapterTable.build(weights, gradients, offsets, ranks, keys, cpu)
dropout = Dropout(np.zeros(64, np.int64), np.zeros(64, np.int32), np.zeros(1, np.int32))
x, y = torch.empty(64, size, dtype=dtype), torch.empty(64, size, dtype=dtype)
for masks in (None, dropout):
    segments, scales = np.array([[0, 64, 0]], np.int32), np.ones(1, np.float32)
    arrays = block_arrays(segments, scales, masks, max_tokens=4096)
    blocks = TokenBlocks.of(segments, list(map(torch.from_numpy, arrays)), max_tokens=4096)
    for layer in (0, 1, 16):
        hidden = kernels.lora_down(x, table, layer, blocks)
        kernels.lora_up(y, hidden, table, layer, blocks)
        kernels.lora_backward(y, x, hidden, x, table, layer, blocks)
print("variants", *(kernel.num_variants for kernel in compiled))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "rank"), [("bfloat16", 16), ("bfloat16", 64), ("float32", 16)])
def test_kernels_compile_for_an_h100_with_wide_loads_and_once_for_all_layers(
    dtype: str, rank: int
) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": "src:tests"}
    command = [sys.executable, "-c", COMPILE, dtype, str(rank)]
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    *launches, variants = (line.split() for line in ended.stdout.splitlines())
    assert len(launches) == 6 * 2 * 3
    for kernel, loads_of_2_bytes, asynchronous_loads in launches:
        assert loads_of_2_bytes == "0"
        assert kernel == "_project_up" or int(asynchronous_loads) > 0
    # By A and by B; by A also with dropout.
    assert variants == ["variants", "3", "3", "3"]
