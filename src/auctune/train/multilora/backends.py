"""Products of the tokens of a batch with the small matrices of their own adapters.

A batch of N tokens is cut into segments; segment i, tokens first_i <= n < last_i, has its own
matrix W_i. LoRA's forward and backward passes need two products only:

    add:    Y[n]  +=  X[n] W_i              for n in segment i
    outer:  G_i   =   sum over n in segment i of  X[n]^T Z[n]

Shapes: N tokens, n segments, r_i an adapter's rank, R = max r_i, D the features of a module.
Where W_i has fewer rows than X has columns, or fewer columns than Y, the rest counts as zero:
so ranks may differ.

| backend | how | where it pays |
| --- | --- | --- |
| loop | one matrix product a segment | any device; few or long segments |
| bmm | one batched product over stacked, padded matrices | many short segments, equally long |
| grouped | torch's grouped_mm | CUDA in bfloat16; any lengths |
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from auctune.domain.errors import InputError

# grouped_mm wants rows of whole 16-byte blocks: 8 numbers of 2 bytes.
GROUPED_ALIGNMENT = 8
GROUPED_CAPABILITY = (8, 0)

Bounds = tuple[tuple[int, int], ...]
"""First and last (exclusive) token of each segment."""


class Backend(Protocol):
    """Implementation of the two products; see the module's formulas."""

    name: str

    def add(self, into: Tensor, x: Tensor, weights: Sequence[Tensor], bounds: Bounds) -> None:
        """Add x[N, d_in] times each token's weights[i] [<= d_in, <= d_out] to into[N, d_out]."""

    def outer(
        self, left: Tensor, right: Tensor, ranks: Sequence[int], bounds: Bounds
    ) -> list[Tensor]:
        """Return for each segment left[:, :r_i]^T right: [r_i, D], of left [N, R], right [N, D]."""


class LoopBackend:
    """One product a segment."""

    name = "loop"

    def add(self, into: Tensor, x: Tensor, weights: Sequence[Tensor], bounds: Bounds) -> None:
        for (first, last), weight in zip(bounds, weights, strict=True):
            rows, columns = weight.shape
            into[first:last, :columns].addmm_(x[first:last, :rows], weight)

    def outer(
        self, left: Tensor, right: Tensor, ranks: Sequence[int], bounds: Bounds
    ) -> list[Tensor]:
        return [
            left[first:last, :rank].t() @ right[first:last]
            for rank, (first, last) in zip(ranks, bounds, strict=True)
        ]


class BmmBackend:
    """One batched product; segments of unequal length are padded to the longest."""

    name = "bmm"

    def add(self, into: Tensor, x: Tensor, weights: Sequence[Tensor], bounds: Bounds) -> None:
        stacked = stack_padded(weights, x.shape[1], into.shape[1])
        if is_uniform(bounds):
            whole = slice(bounds[0][0], bounds[-1][1])
            length = bounds[0][1] - bounds[0][0]
            target = into[whole].view(len(bounds), length, -1)
            target.baddbmm_(x[whole].view(len(bounds), length, -1), stacked)
            return
        product = torch.bmm(stack_segments(x, bounds), stacked)
        for (first, last), segment in zip(bounds, product, strict=True):
            into[first:last] += segment[: last - first]

    def outer(
        self, left: Tensor, right: Tensor, ranks: Sequence[int], bounds: Bounds
    ) -> list[Tensor]:
        product = stack_segments(left, bounds).transpose(1, 2) @ stack_segments(right, bounds)
        return [segment[:rank] for segment, rank in zip(product, ranks, strict=True)]


class GroupedBackend:
    """torch's grouped_mm: on CUDA one kernel for all segments, whatever their lengths.

    It runs on a CPU too, slowly, which serves the tests; `choose_backend` offers it on CUDA in
    bfloat16 alone.
    """

    name = "grouped"

    def add(self, into: Tensor, x: Tensor, weights: Sequence[Tensor], bounds: Bounds) -> None:
        rows, columns = align(x.shape[1]), align(into.shape[1])
        stacked = stack_padded(weights, rows, columns)
        first, last = bounds[0][0], bounds[-1][1]
        padded = functional.pad(x[first:last], (0, rows - x.shape[1])).contiguous()
        ends = _group_ends(bounds, x.device)
        product = functional.grouped_mm(padded, self._with_gaps(stacked, bounds), offs=ends)
        into[first:last] += product[:, : into.shape[1]]

    def outer(
        self, left: Tensor, right: Tensor, ranks: Sequence[int], bounds: Bounds
    ) -> list[Tensor]:
        first, last = bounds[0][0], bounds[-1][1]
        padded = functional.pad(left[first:last], (0, align(left.shape[1]) - left.shape[1]))
        wide = functional.pad(right[first:last], (0, align(right.shape[1]) - right.shape[1]))
        ends = _group_ends(bounds, left.device)
        product = functional.grouped_mm(padded.contiguous().t(), wide.contiguous(), offs=ends)
        kept = [index for index, is_gap in enumerate(gaps(bounds)) if not is_gap]
        return [
            product[index, :rank, : right.shape[1]] for index, rank in zip(kept, ranks, strict=True)
        ]

    @staticmethod
    def _with_gaps(stacked: Tensor, bounds: Bounds) -> Tensor:
        pattern = gaps(bounds)
        if not any(pattern):
            return stacked
        whole = stacked.new_zeros(len(pattern), *stacked.shape[1:])
        whole[[index for index, is_gap in enumerate(pattern) if not is_gap]] = stacked
        return whole


@lru_cache(maxsize=64)
def _group_ends(bounds: Bounds, device: torch.device) -> Tensor:
    """int32 [groups]: where each segment, and each gap between two, ends; from the first on.

    Cached, since the layers of a pass need the same and each would wait for a transfer.
    """
    ends, place = [], bounds[0][0]
    for first, last in bounds:
        if first > place:
            ends.append(first - bounds[0][0])
        ends.append(last - bounds[0][0])
        place = last
    return torch.tensor(ends, dtype=torch.int32, device=device)


def gaps(bounds: Bounds) -> list[bool]:
    """Return for each group of consecutive tokens whether it lies between segments, in order."""
    pattern, place = [], bounds[0][0]
    for first, last in bounds:
        if first > place:
            pattern.append(True)
        pattern.append(False)
        place = last
    return pattern


def align(size: int) -> int:
    """Return the least multiple of the alignment that is not below `size`."""
    return -(-size // GROUPED_ALIGNMENT) * GROUPED_ALIGNMENT


def is_uniform(bounds: Bounds) -> bool:
    """Return whether segments are of equal length and without a gap."""
    length = bounds[0][1] - bounds[0][0]
    return all(
        (first, last) == (bounds[0][0] + index * length, bounds[0][0] + (index + 1) * length)
        for index, (first, last) in enumerate(bounds)
    )


def stack_segments(x: Tensor, bounds: Bounds) -> Tensor:
    """Return [n, longest segment, D] of x [N, D]; zeros after the end of a shorter one."""
    if is_uniform(bounds):
        length = bounds[0][1] - bounds[0][0]
        return x[bounds[0][0] : bounds[-1][1]].view(len(bounds), length, -1)
    return pad_sequence([x[first:last] for first, last in bounds], batch_first=True)


def stack_padded(weights: Sequence[Tensor], rows: int, columns: int) -> Tensor:
    """Return [n, rows, columns] of matrices that are no larger; zeros where they are smaller."""
    if all(weight.shape == (rows, columns) for weight in weights):
        return torch.stack(list(weights))
    stacked = weights[0].new_zeros(len(weights), rows, columns)
    for place, weight in zip(stacked, weights, strict=True):
        place[: weight.shape[0], : weight.shape[1]] = weight
    return stacked


def grouped_obstacle(device: torch.device, dtype: torch.dtype) -> str:
    """Return why the grouped backend cannot be used here; empty if it can."""
    if device.type != "cuda":
        return f"the device is {device.type}, grouped products need CUDA"
    if dtype is not torch.bfloat16:
        return f"the base is in {dtype}, grouped products need torch.bfloat16"
    capability = torch.cuda.get_device_capability(device)
    if capability < GROUPED_CAPABILITY:
        return f"compute capability {capability}, grouped products need {GROUPED_CAPABILITY}"
    return ""


def choose_backend(name: str, device: torch.device, dtype: torch.dtype) -> Backend:
    """Return the backend of that name; "auto" is the one that is fastest here.

    Raises:
        InputError: if the name is unknown, or the backend cannot run on this device.
    """
    obstacle = grouped_obstacle(device, dtype)
    if name == "grouped":
        if obstacle:
            raise InputError("backend", f"'grouped' cannot be used: {obstacle}", "another backend")
        return GroupedBackend()
    if name == "loop":
        return LoopBackend()
    if name == "bmm":
        return BmmBackend()
    if name == "auto":
        # A CPU has no launches to save, so stacking only costs copies there.
        if device.type == "cpu":
            return LoopBackend()
        return BmmBackend() if obstacle else GroupedBackend()
    raise InputError("backend", f"{name!r}", "auto, loop, bmm or grouped")
