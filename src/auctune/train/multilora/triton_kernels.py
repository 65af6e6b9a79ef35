"""Triton kernels of the LoRA products of many adapters in one stream of tokens.

For token n of adapter i, with input x_n, output y_n and its gradient g_n, scale s_i (alpha / rank,
times the keep scale of dropout) and dropout mask m_n:

    forward    h_n = s_i A_i (x_n * m_n)               y_n += B_i h_n
    backward   e_n = s_i B_i^T g_n                     dx_n += (A_i^T e_n) * m_n
               dA_i += sum over n of e_n (x_n * m_n)^T
               dB_i += sum over n of g_n h_n^T

Each line is one launch for all adapters, whatever their ranks and numbers of tokens, by one of
three kernels. N tokens, D features, elements of b bytes, rank R; bfloat16, D = 4096, N = 4096:

| kernel | computes | bytes moved | at 3 TB/s |
| --- | --- | --- | --- |
| `_project_down` | h (by A), e (by B) | b N (D + R) | 11 us each |
| `_project_up` | y (by B), dx (by A) | b N (2 D + R) | 22 us each |
| `_sum_outer_products` | dA, dB | b N (D + R) + 8 R D for each adapter | 11 us each |

Weights are read through the L2 cache and, for the ranks of LoRA, matter little; so does the
arithmetic, at most 4 R operations a byte. A linear layer of 4096 x 4096 needs 90 us in all, where
its frozen products take 460 us at 600 TFLOP/s; one of 4096 x 14336, 200 us and 1.6 ms. These are
estimates, not measurements.

A program of the first two kernels has one block of tokens of one adapter. A program of the third
has one tile of one adapter's gradient and goes through all its tokens in order: no atomics, so
that equal inputs give equal bits. Products accumulate in float32; h and e are rounded to the type
of the activations.

No launch waits for the device or allocates for an adapter. All that differs between passes of equal
`TokenBlocks.buffer` size lies in device memory, so a pass can be captured as a CUDA graph.

Importing this module needs triton. With TRITON_INTERPRET=1, set before triton is imported, the
kernels run on a CPU: that is for tests.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from auctune.train.multilora.transfer import write_buffer

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
# Of splitmix64; see `auctune.train.multilora.dropout`.
GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
SECOND = tl.constexpr(0x94D049BB133111EB)

# Numbers in a load of 16 bytes of the smaller types.
ALIGNMENT = 8
MIN_DOT_SIZE = 16  # of `tl.dot`
# By bytes of a number. Tensor cores do not compute float32 exactly: its operands fill registers.
MAX_RANK_TILE = {2: 64, 4: 16}
# Bytes of activations that a program of `_project_down` loads in a step. With four steps in flight
# and one or two programs on each multiprocessor, that is what memory needs to be busy: 3 TB/s times
# a latency of about 0.7 us over 132 multiprocessors is 16 KB each.
STEP_BYTES = 8192
# Programs that an H100 has at once, about: 132 multiprocessors with one or two each.
NUM_RESIDENT_PROGRAMS = 200


@dataclass(frozen=True)
class AdapterTable:
    """Where the weights and gradients of each adapter are; changes when adapters come or go.

    Attributes:
        weights: int64 [slots], addresses of flat weights, of the type of the activations.
        gradients: int64 [slots], addresses of flat float32 gradients.
        offsets: int64 [layers, slots, 2], elements before A [rank, in] and B [out, rank] of a
            layer in both flat tensors; -1: the adapter is not on this layer.
        ranks: int32 [slots], 0 of a free one.
        layer_keys: int64 [layers], of `dropout.layer_key`.
        padded_rank: columns of hidden states, a multiple of `rank_tile`.
        rank_tile: ranks that a program computes at once, 16 to `max_rank_tile`.
        alignment: numbers of which all places of matrices are a multiple: 8, or else 1.
        rank_alignment: of which all ranks are a multiple: 8, 4, 2 or 1.
        buffer: device memory of all tensors.
    """

    weights: Tensor
    gradients: Tensor
    offsets: Tensor
    ranks: Tensor
    layer_keys: Tensor
    padded_rank: int
    rank_tile: int
    max_rank_tile: int
    alignment: int
    rank_alignment: int
    buffer: Tensor

    @classmethod
    def build(
        cls,
        weights: Sequence[Tensor | None],
        gradients: Sequence[Tensor | None],
        offsets: npt.NDArray[np.int64],
        ranks: npt.NDArray[np.int32],
        layer_keys: npt.NDArray[np.int64],
        device: torch.device,
        buffer: Tensor | None = None,
    ) -> Self:
        """Write a table to a device, without waiting for it.

        Args:
            weights: each adapter's flat weights, which must outlive the table; `None` in a slot
                that is free.
            gradients: flat float32 gradients, as long.
            offsets: [layers, slots, 2].
            ranks, layer_keys: as of the table.
            device: of the weights.
            buffer: of an earlier table of as many layers and slots, to be overwritten: a graph that
                was captured with it uses the new one, which must have equal `padded_rank`,
                `alignment` and `rank_alignment`.
        """
        assert all(tensor is None or tensor.dtype is torch.float32 for tensor in gradients)
        addresses = [
            [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
            for tensors in (weights, gradients)
        ]
        is_aligned = not any(address % 16 for address in chain(*addresses)) and not any(
            offsets[offsets >= 0] % ALIGNMENT
        )
        sizes = {tensor.element_size() for tensor in weights if tensor is not None}
        max_tile = min(MAX_RANK_TILE[size] for size in sizes or MAX_RANK_TILE)
        arrays: list[npt.NDArray[Any]] = [np.array(values, np.int64) for values in addresses]
        arrays += [offsets, ranks, layer_keys]
        buffer, (by_slot, sums, places, slot_ranks, keys) = write_buffer(arrays, device, buffer)
        return cls(
            weights=by_slot,
            gradients=sums,
            offsets=places,
            ranks=slot_ranks,
            layer_keys=keys,
            padded_rank=0,
            rank_tile=0,
            max_rank_tile=max_tile,
            alignment=ALIGNMENT if is_aligned else 1,
            rank_alignment=1,
            buffer=buffer,
        ).of_ranks(ranks)

    def of_ranks(self, ranks: npt.NDArray[np.int32]) -> Self:
        """Return the table for passes of adapters of some ranks alone.

        What else is loaded changes neither the time nor the bits of such a pass.
        """
        max_rank = int(ranks.max(initial=MIN_DOT_SIZE))
        rank_tile = min(triton.next_power_of_2(max_rank), self.max_rank_tile)
        return replace(
            self,
            padded_rank=triton.cdiv(max_rank, rank_tile) * rank_tile,
            rank_tile=rank_tile,
            rank_alignment=math.gcd(ALIGNMENT, *ranks.tolist()),
        )


@dataclass(frozen=True)
class Dropout:
    """What decides the dropout masks of a pass.

    Attributes:
        row_keys: int64 [N], key of each token's row.
        positions: int32 [N], place of each token in its row.
        levels: int32 [slots], of `dropout.num_dropped_levels`.
    """

    row_keys: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int32]
    levels: npt.NDArray[np.int32]


def block_arrays(
    segments: npt.NDArray[np.int32],
    scales: npt.NDArray[np.float32],
    dropout: Dropout | None = None,
    *,
    max_tokens: int | None = None,
    max_segments: int | None = None,
) -> list[npt.NDArray[Any]]:
    """Return what `TokenBlocks` has on the device.

    Args:
        segments: int32 [segments, 3], first token, end and slot, in any order; tokens in none keep
            the frozen model's values.
        scales: float32 [slots].
        dropout: what decides the masks; `None`: nothing is dropped.
        max_tokens, max_segments: as many as the tables have room for; by default what they need.
            Equal limits give tables of equal sizes, whatever the segments.

    Raises:
        ValueError: if a limit is too small.
    """
    table = segments[np.argsort(segments[:, 2], kind="stable")]
    first, end, slot = table.T
    size = block_size(_num_tokens(segments) if max_tokens is None else max_tokens)
    counts = -(-(end - first) // size)
    # Blocks of a segment are numbered from 0.
    number = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    starts = np.repeat(first, counts) + number * size
    ends = np.minimum(starts + size, np.repeat(end, counts))
    blocks = np.stack([starts, ends, np.repeat(slot, counts)], axis=1)
    if max_segments is None:
        max_segments = len(table)
    max_blocks = len(blocks) if max_tokens is None else max_tokens // size + max_segments
    slot_counts = np.bincount(slot, minlength=len(scales))
    segment_starts = np.append(0, slot_counts.cumsum()).astype(np.int32)
    arrays: list[npt.NDArray[Any]] = [
        _with_empty_rows(blocks, max_blocks),
        _with_empty_rows(table, max_segments),
        segment_starts,
        scales,
    ]
    if dropout is not None:
        arrays += [dropout.row_keys, dropout.positions, dropout.levels]
    return arrays


@dataclass(frozen=True)
class TokenBlocks:
    """Assignment of the tokens of one pass to adapters, on the device.

    Attributes:
        blocks: int32 [blocks, 3], first token, end and slot of at most `size` tokens of one
            adapter; empty ones fill the table.
        segments: int32 [segments, 3], first token, end and slot of all tokens side by side of one
            adapter; those of one slot follow each other.
        segment_starts: int32 [slots + 1], the segments of slot i begin at i and end at i + 1.
        scales: float32 [slots].
        dropout: row keys, positions and levels of `Dropout`; `None`: nothing is dropped.
        size: tokens of a block.
        num_active: adapters that have tokens, at most.
        end: tokens that a pass must have, at least.
    """

    blocks: Tensor
    segments: Tensor
    segment_starts: Tensor
    scales: Tensor
    dropout: tuple[Tensor, ...] | None
    size: int
    num_active: int
    end: int

    @classmethod
    def of(
        cls,
        segments: npt.NDArray[np.int32],
        tensors: Sequence[Tensor],
        *,
        max_tokens: int | None = None,
    ) -> Self:
        """Return the blocks of a pass.

        Args:
            segments, max_tokens: as of `block_arrays`.
            tensors: what that returned, on the device.
        """
        blocks, by_slot, starts, scales, *dropout = tensors
        return cls(
            blocks=blocks,
            segments=by_slot,
            segment_starts=starts,
            scales=scales,
            dropout=tuple(dropout) or None,
            size=block_size(_num_tokens(segments) if max_tokens is None else max_tokens),
            num_active=min(len(by_slot), len(scales)),
            end=int(segments[:, 1].max(initial=0)),
        )


def _num_tokens(segments: npt.NDArray[np.int32]) -> int:
    return int((segments[:, 1] - segments[:, 0]).sum())


def block_size(num_tokens: int) -> int:
    """Return the tokens of a block: few enough for all multiprocessors to have one."""
    size: int = triton.next_power_of_2(num_tokens // NUM_RESIDENT_PROGRAMS)
    return max(MIN_DOT_SIZE, min(64, size))


def _with_empty_rows(table: npt.NDArray[np.int32], num_rows: int) -> npt.NDArray[np.int32]:
    padded = np.zeros((num_rows, 3), np.int32)
    padded[: len(table)] = table.reshape(-1, 3)
    return padded


def lora_down(x: Tensor, table: AdapterTable, layer: int, blocks: TokenBlocks) -> Tensor:
    """Return hidden states h [N, padded rank] of x [N, in].

    Rows of tokens without adapter, and columns beyond a rank, are undefined.
    """
    return _launch_down(x, table, layer, blocks, is_a=True)


def lora_up(
    y: Tensor, hidden: Tensor, table: AdapterTable, layer: int, blocks: TokenBlocks
) -> None:
    """Add B h to y [N, out], in place; hidden: of `lora_down`."""
    _launch_up(y, hidden, table, layer, blocks, is_a=False)


def lora_backward(
    gradient: Tensor,
    x: Tensor,
    hidden: Tensor,
    input_gradient: Tensor | None,
    table: AdapterTable,
    layer: int,
    blocks: TokenBlocks,
) -> None:
    """Add the gradients of A and B to the flat gradients, and that of x to the frozen product's.

    Args:
        gradient: of y, [N, out].
        x: [N, in].
        hidden: of `lora_down`.
        input_gradient: of x, [N, in], changed in place; `None` if none is needed.
    """
    hidden_gradient = _launch_down(gradient, table, layer, blocks, is_a=False)
    if input_gradient is not None:
        _launch_up(input_gradient, hidden_gradient, table, layer, blocks, is_a=True)
    _launch_sum(hidden_gradient, x, table, layer, blocks, is_a=True)
    _launch_sum(hidden, gradient, table, layer, blocks, is_a=False)


def _launch_down(
    x: Tensor, table: AdapterTable, layer: int, blocks: TokenBlocks, *, is_a: bool
) -> Tensor:
    hidden = x.new_empty(len(x), table.padded_rank)
    features = max(32, STEP_BYTES // x.element_size() // max(blocks.size, table.rank_tile))
    grid = (len(blocks.blocks), table.padded_rank // table.rank_tile)
    arguments = _arguments(x, hidden, table.weights, table, layer, blocks, is_a=is_a)
    tiles = {"TOKENS": blocks.size, "FEATURES": features, "num_stages": 4}
    _project_down[grid](blocks.blocks, blocks.scales, *arguments, **tiles)
    return hidden


def _launch_up(
    y: Tensor, hidden: Tensor, table: AdapterTable, layer: int, blocks: TokenBlocks, *, is_a: bool
) -> None:
    # A program reads and writes 16 KB where a block has 64 tokens; several share a multiprocessor.
    features = 256 // y.element_size()
    grid = (triton.cdiv(y.shape[1], features), len(blocks.blocks))
    arguments = _arguments(y, hidden, table.weights, table, layer, blocks, is_a=is_a)
    tiles = {"TOKENS": blocks.size, "FEATURES": features, "num_stages": 1}
    _project_up[grid](blocks.blocks, *arguments, **tiles)


def _launch_sum(
    hidden: Tensor, x: Tensor, table: AdapterTable, layer: int, blocks: TokenBlocks, *, is_a: bool
) -> None:
    # Each program reads the hidden states again: wide tiles where enough of them remain, and where
    # registers can hold their sums.
    is_wide = blocks.num_active * x.shape[1] >= 128 * NUM_RESIDENT_PROGRAMS
    features = 128 if is_wide and table.rank_tile < 64 else 64
    num_rank_tiles = table.padded_rank // table.rank_tile
    grid = (triton.cdiv(x.shape[1], features), len(table.ranks), num_rank_tiles)
    arguments = _arguments(x, hidden, table.gradients, table, layer, blocks, is_a=is_a)
    tiles = {"TOKENS": 128 // x.element_size(), "FEATURES": features, "num_stages": 4}
    _sum_outer_products[grid](blocks.segments, blocks.segment_starts, *arguments, **tiles)


def _arguments(
    x: Tensor,
    hidden: Tensor,
    addresses: Tensor,
    table: AdapterTable,
    layer: int,
    blocks: TokenBlocks,
    *,
    is_a: bool,
) -> tuple[Any, ...]:
    """Return the arguments that all kernels have, in their order."""
    # What the kernels cannot know, and would write beyond tensors.
    assert x.stride(1) == 1, "features of a token must be adjacent"
    assert len(x) >= blocks.end, f"{len(x)} tokens, of which adapters have {blocks.end}"
    assert hidden.shape == (len(x), table.padded_rank), "hidden states of another pass"
    place = ((addresses, table.offsets, table.ranks), layer, len(table.ranks))
    # Dropout is of x alone: of what A is multiplied with, and so of the gradient that A gives.
    dropout = (*blocks.dropout, table.layer_keys) if is_a and blocks.dropout else None
    strides = (x.shape[1], x.stride(0), hidden.stride(0))
    constants = (is_a, table.alignment, table.rank_alignment, table.rank_tile)
    return (*place, dropout, x, hidden, *strides, *constants)


@triton.jit(do_not_specialize=["layer", "num_slots"])
def _project_down(
    blocks: tl.tensor,
    scales: tl.tensor,
    table: tl.tuple,
    layer: tl.tensor,
    num_slots: tl.tensor,
    dropout: tl.tuple | None,
    x: tl.tensor,
    hidden: tl.tensor,
    num_features: tl.tensor,
    x_stride: tl.tensor,
    hidden_stride: tl.tensor,
    IS_A: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    RANK_ALIGNMENT: tl.constexpr,
    RANKS: tl.constexpr,
    TOKENS: tl.constexpr,
    FEATURES: tl.constexpr,
) -> None:
    """hidden = scale (x * mask) W of one block and tile of ranks; W is A^T or B."""
    first, end, slot = _load_range(blocks, tl.program_id(0))
    first_rank = tl.program_id(1) * RANKS
    offset, rank = _load_place(table, layer, num_slots, slot, IS_A, ALIGNMENT, RANK_ALIGNMENT)
    if (first >= end) | (offset < 0) | (first_rank >= rank):
        return
    matrix = _load_address(table, slot, x.dtype.element_ty, ALIGNMENT) + offset
    tokens, is_token = _tokens(first, end, TOKENS)
    rank_range = first_rank + tl.arange(0, RANKS)
    if dropout is not None:
        state = _load_dropout_state(dropout, layer, tokens, is_token, num_features)
        dropped = tl.load(dropout[2] + slot)
    total = tl.zeros([TOKENS, RANKS], tl.float32)
    for start in range(0, num_features, FEATURES):
        features = start + tl.arange(0, FEATURES)
        is_feature = features < num_features
        inputs = tl.load(
            x + tokens[:, None] * x_stride + features[None, :],
            mask=is_token[:, None] & is_feature[None, :],
            other=0.0,
        )
        if dropout is not None:
            kept = _is_kept(state, dropped, start, TOKENS, FEATURES)
            inputs = tl.where(kept, inputs, 0.0)
        if IS_A:
            places = rank_range[None, :] * num_features + features[:, None]
        else:
            places = features[:, None] * rank + rank_range[None, :]
        is_weight = is_feature[:, None] & (rank_range < rank)[None, :]
        total = _dot(inputs, tl.load(matrix + places, mask=is_weight, other=0.0), total)
    total *= tl.load(scales + slot)
    tl.store(
        hidden + tokens[:, None] * hidden_stride + rank_range[None, :],
        total.to(hidden.dtype.element_ty),
        mask=is_token[:, None],
    )


@triton.jit(do_not_specialize=["layer", "num_slots"])
def _project_up(
    blocks: tl.tensor,
    table: tl.tuple,
    layer: tl.tensor,
    num_slots: tl.tensor,
    dropout: tl.tuple | None,
    y: tl.tensor,
    hidden: tl.tensor,
    num_features: tl.tensor,
    y_stride: tl.tensor,
    hidden_stride: tl.tensor,
    IS_A: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    RANK_ALIGNMENT: tl.constexpr,
    RANKS: tl.constexpr,
    TOKENS: tl.constexpr,
    FEATURES: tl.constexpr,
) -> None:
    """y += (hidden W) * mask of one block and tile of features; W is A or B^T."""
    first, end, slot = _load_range(blocks, tl.program_id(1))
    offset, rank = _load_place(table, layer, num_slots, slot, IS_A, ALIGNMENT, RANK_ALIGNMENT)
    if (first >= end) | (offset < 0):
        return
    matrix = _load_address(table, slot, y.dtype.element_ty, ALIGNMENT) + offset
    tokens, is_token = _tokens(first, end, TOKENS)
    start = tl.program_id(0) * FEATURES
    features = start + tl.arange(0, FEATURES)
    is_feature = features < num_features
    targets = y + tokens[:, None] * y_stride + features[None, :]
    is_target = is_token[:, None] & is_feature[None, :]
    # Loaded first, since it takes longest.
    before = tl.load(targets, mask=is_target, other=0.0)
    total = tl.zeros([TOKENS, FEATURES], tl.float32)
    for first_rank in range(0, rank, RANKS):
        rank_range = first_rank + tl.arange(0, RANKS)
        is_rank = rank_range < rank
        states = tl.load(
            hidden + tokens[:, None] * hidden_stride + rank_range[None, :],
            mask=is_token[:, None],
            other=0.0,
        )
        if IS_A:
            places = rank_range[:, None] * num_features + features[None, :]
        else:
            places = features[None, :] * rank + rank_range[:, None]
        is_weight = is_rank[:, None] & is_feature[None, :]
        total = _dot(states, tl.load(matrix + places, mask=is_weight, other=0.0), total)
    if dropout is not None:
        state = _load_dropout_state(dropout, layer, tokens, is_token, num_features)
        kept = _is_kept(state, tl.load(dropout[2] + slot), start, TOKENS, FEATURES)
        total = tl.where(kept, total, 0.0)
    tl.store(targets, (total + before).to(y.dtype.element_ty), mask=is_target)


@triton.jit(do_not_specialize=["layer", "num_slots"])
def _sum_outer_products(
    segments: tl.tensor,
    segment_starts: tl.tensor,
    table: tl.tuple,
    layer: tl.tensor,
    num_slots: tl.tensor,
    dropout: tl.tuple | None,
    x: tl.tensor,
    hidden: tl.tensor,
    num_features: tl.tensor,
    x_stride: tl.tensor,
    hidden_stride: tl.tensor,
    IS_A: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    RANK_ALIGNMENT: tl.constexpr,
    RANKS: tl.constexpr,
    TOKENS: tl.constexpr,
    FEATURES: tl.constexpr,
) -> None:
    """G += sum of hidden (x * mask)^T over the tokens of a slot; G is the gradient of A or B^T."""
    slot = tl.program_id(1)
    first_rank = tl.program_id(2) * RANKS
    offset, rank = _load_place(table, layer, num_slots, slot, IS_A, ALIGNMENT, RANK_ALIGNMENT)
    first_segment = tl.load(segment_starts + slot)
    end_segment = tl.load(segment_starts + slot + 1)
    if (first_segment >= end_segment) | (offset < 0) | (first_rank >= rank):
        return
    rank_range = first_rank + tl.arange(0, RANKS)
    is_rank = rank_range < rank
    start = tl.program_id(0) * FEATURES
    features = start + tl.arange(0, FEATURES)
    is_feature = features < num_features
    total = tl.zeros([RANKS, FEATURES], tl.float32)
    for segment in range(first_segment, end_segment):
        first, end, _ = _load_range(segments, segment)
        for token in range(first, end, TOKENS):
            tokens, is_token = _tokens(token, end, TOKENS)
            states = tl.load(
                hidden + tokens[:, None] * hidden_stride + rank_range[None, :],
                mask=is_token[:, None],
                other=0.0,
            )
            inputs = tl.load(
                x + tokens[:, None] * x_stride + features[None, :],
                mask=is_token[:, None] & is_feature[None, :],
                other=0.0,
            )
            if dropout is not None:
                state = _load_dropout_state(dropout, layer, tokens, is_token, num_features)
                dropped = tl.load(dropout[2] + slot)
                kept = _is_kept(state, dropped, start, TOKENS, FEATURES)
                inputs = tl.where(kept, inputs, 0.0)
            total = _dot(tl.trans(states), inputs, total)
    if IS_A:
        places = rank_range[:, None] * num_features + features[None, :]
    else:
        places = features[None, :] * rank + rank_range[:, None]
    targets = _load_address(table, slot, tl.float32, ALIGNMENT) + offset + places
    is_target = is_rank[:, None] & is_feature[None, :]
    total += tl.load(targets, mask=is_target, other=0.0)
    tl.store(targets, total, mask=is_target)


@triton.jit
def _load_range(table: tl.tensor, row: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return first token, end and slot."""
    return tl.load(table + row * 3), tl.load(table + row * 3 + 1), tl.load(table + row * 3 + 2)


@triton.jit
def _load_place(
    table: tl.tuple,
    layer: tl.tensor,
    num_slots: tl.tensor,
    slot: tl.tensor,
    IS_A: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    RANK_ALIGNMENT: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the offset of a layer's A or B in its adapter, -1 if there is none, and its rank."""
    _, offsets, ranks = table
    index = (layer * num_slots + slot) * 2
    if not IS_A:
        index += 1
    offset = tl.load(offsets + index)
    rank = tl.load(ranks + slot)
    return tl.multiple_of(offset, ALIGNMENT), tl.multiple_of(rank, RANK_ALIGNMENT)


@triton.jit
def _load_address(
    table: tl.tuple, slot: tl.tensor, ELEMENT: tl.constexpr, ALIGNMENT: tl.constexpr
) -> tl.tensor:
    """Return a pointer to an adapter's flat weights or gradients."""
    pointer = tl.load(table[0] + slot).to(tl.pointer_type(ELEMENT))
    if ALIGNMENT > 1:
        # Numbers that are read 8 at a time are so from the first on.
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def _tokens(first: tl.tensor, end: tl.tensor, TOKENS: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Return the tokens from `first` on, int64 since they are multiplied by strides; and masks."""
    tokens = first + tl.arange(0, TOKENS)
    return tokens.to(tl.int64), tokens < end


@triton.jit
def _dot(left: tl.tensor, right: tl.tensor, total: tl.tensor) -> tl.tensor:
    if INTERPRETED:  # It would multiply the bits of bfloat16 as integers.
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, total, input_precision="ieee")


@triton.jit
def _load_dropout_state(
    dropout: tl.tuple,
    layer: tl.tensor,
    tokens: tl.tensor,
    is_token: tl.tensor,
    num_features: tl.tensor,
) -> tl.tensor:
    """Return uint64 [tokens]: the state of `dropout.keep_mask` at each token's first word."""
    row_keys, positions, _, layer_keys = dropout
    keys = tl.load(row_keys + tokens, mask=is_token, other=0) ^ tl.load(layer_keys + layer)
    positions_in_row = tl.load(positions + tokens, mask=is_token, other=0).to(tl.uint64)
    word = positions_in_row * ((num_features + 3) // 4).to(tl.uint64) + 1
    return _mix(keys.to(tl.uint64)) + word * GOLDEN


@triton.jit
def _is_kept(
    state: tl.tensor,
    dropped: tl.tensor,
    start: tl.tensor,
    TOKENS: tl.constexpr,
    FEATURES: tl.constexpr,
) -> tl.tensor:
    """Return [tokens, features]: whether each feature from `start` on, a multiple of 4, is kept."""
    words = (start // 4 + tl.arange(0, FEATURES // 4)).to(tl.uint64)
    bits = _mix(state[:, None] + (words * GOLDEN)[None, :])
    # A word decides on 4 features, by 16 bits each, compared as a signed number with its least.
    lanes = bits[:, :, None] >> (tl.arange(0, 4) * 16).to(tl.uint64)[None, None, :]
    levels = (lanes & 0xFFFF).to(tl.int32) ^ 0x8000
    return tl.reshape(levels >= dropped, [TOKENS, FEATURES])


@triton.jit
def _mix(words: tl.tensor) -> tl.tensor:
    """splitmix64's finalizer of uint64 numbers."""
    words = (words ^ (words >> 30)) * FIRST
    words = (words ^ (words >> 27)) * SECOND
    return words ^ (words >> 31)
