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
| grouped | torch's grouped_mm | CUDA in bfloat16, compute capability 9.x or 10.x; any lengths |
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
# Major compute capabilities for which torch has the kernel. On others grouped_mm copies the ends of
# the segments to the host, where the device waits, and makes a product for each.
GROUPED_CAPABILITIES = (9, 10)

Bounds = tuple[tuple[int, int], ...]
"""First and last (exclusive) token of each segment."""

Matrices = Tensor | Sequence[Tensor]
"""A matrix for each segment: one tensor [n, rows, columns], or several, each as large as it is."""


class Backend(Protocol):
    """Implementation of the two products; see the module's formulas."""

    name: str

    def gather(
        self, weights: Sequence[Tensor], rows: int, columns: int, dtype: torch.dtype
    ) -> Matrices:
        """Return weights, each [<= rows, <= columns], as `add` takes them, in a type.

        A stack has the least size that the products can use, not below rows and columns.
        """

    def add(self, into: Tensor, x: Tensor, weights: Matrices, bounds: Bounds) -> None:
        """Add x[N, d_in] times each token's weights[i] [<= d_in, <= d_out] to into[N, d_out]."""

    def outer(
        self, left: Tensor, right: Tensor, ranks: Sequence[int], bounds: Bounds
    ) -> list[Tensor]:
        """Return for each segment left[:, :r_i]^T right: [r_i, D], of left [N, R], right [N, D]."""


class LoopBackend:
    """One product a segment."""

    name = "loop"

    def gather(
        self, weights: Sequence[Tensor], rows: int, columns: int, dtype: torch.dtype
    ) -> Matrices:
        return tuple(weight.to(dtype) for weight in weights)

    def add(self, into: Tensor, x: Tensor, weights: Matrices, bounds: Bounds) -> None:
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

    def gather(
        self, weights: Sequence[Tensor], rows: int, columns: int, dtype: torch.dtype
    ) -> Matrices:
        return stack_padded(weights, rows, columns, dtype)

    def add(self, into: Tensor, x: Tensor, weights: Matrices, bounds: Bounds) -> None:
        stacked = stack_padded(weights, x.shape[1], into.shape[1], x.dtype)
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

    def gather(
        self, weights: Sequence[Tensor], rows: int, columns: int, dtype: torch.dtype
    ) -> Matrices:
        return stack_padded(weights, align(rows), align(columns), dtype)

    def add(self, into: Tensor, x: Tensor, weights: Matrices, bounds: Bounds) -> None:
        rows, columns = align(x.shape[1]), align(into.shape[1])
        stacked = stack_padded(weights, rows, columns, x.dtype)
        first, last = bounds[0][0], bounds[-1][1]
        padded = pad_columns(x[first:last], rows)
        ends = _group_ends(bounds, x.device)
        product = functional.grouped_mm(padded, self._with_gaps(stacked, bounds), offs=ends)
        into[first:last] += product[:, : into.shape[1]]

    def outer(
        self, left: Tensor, right: Tensor, ranks: Sequence[int], bounds: Bounds
    ) -> list[Tensor]:
        first, last = bounds[0][0], bounds[-1][1]
        padded = pad_columns(left[first:last], align(left.shape[1]))
        wide = pad_columns(right[first:last], align(right.shape[1]))
        ends = _group_ends(bounds, left.device)
        product = functional.grouped_mm(padded.t(), wide, offs=ends)
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


def pad_columns(x: Tensor, columns: int) -> Tensor:
    """Return x [N, D] with zeros up to `columns`; x itself where it is as wide and contiguous."""
    if x.shape[1] < columns:
        return functional.pad(x, (0, columns - x.shape[1]))
    return x.contiguous()


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


def stack_padded(weights: Matrices, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Return [n, rows, columns] of matrices that are no larger; zeros where they are smaller."""
    if isinstance(weights, Tensor) and weights.shape[1:] == (rows, columns):
        return weights
    is_full = all(weight.shape == (rows, columns) for weight in weights)
    size, make = (len(weights), rows, columns), torch.empty if is_full else torch.zeros
    stacked = make(size, dtype=dtype, device=weights[0].device)
    places = [
        place[: weight.shape[0], : weight.shape[1]]
        for place, weight in zip(stacked, weights, strict=True)
    ]
    # One launch for all, the change of types with it.
    torch._foreach_copy_(places, list(weights))
    return stacked


def transposed(weights: Matrices) -> Matrices:
    """Return each matrix transposed; nothing is copied."""
    if isinstance(weights, Tensor):
        return weights.transpose(1, 2)
    return tuple(weight.t() for weight in weights)


def grouped_obstacle(device: torch.device, dtype: torch.dtype) -> str:
    """Return why the grouped backend cannot be used here; empty if it can."""
    if device.type != "cuda":
        return f"the device is {device.type}, grouped products need CUDA"
    if dtype is not torch.bfloat16:
        return f"the base is in {dtype}, grouped products need torch.bfloat16"
    capability = torch.cuda.get_device_capability(device)
    if capability[0] not in GROUPED_CAPABILITIES:
        found = f"{device} has compute capability {capability[0]}.{capability[1]}"
        return f"{found}, grouped products need 9.x or 10.x"
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
