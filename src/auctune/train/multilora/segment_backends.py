"""Backends of torch's own products: segment by segment, or over stacks of their matrices.

For the formulas see `auctune.train.multilora.backends`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from auctune.train.multilora.dropout import keep_mask
from auctune.train.multilora.plan import PassProducts, Routing
from auctune.train.multilora.weights import LayerFactors

# grouped_mm wants rows of whole 16-byte blocks: 8 numbers of 2 bytes.
GROUPED_ALIGNMENT = 8
# Major compute capabilities for which torch has the kernel. On others grouped_mm copies the ends of
# the segments to the host, where the device waits, and makes a product for each.
GROUPED_CAPABILITIES = (9, 10)

Bounds = tuple[tuple[int, int], ...]
"""First and last (exclusive) token of each segment."""


class LayerSegment(NamedTuple):
    """Tokens first, first + 1, ..., last - 1 of a pass, and their adapter's matrices on a layer."""

    first: int
    last: int
    factors: LayerFactors


class SegmentBackend(ABC):
    """A backend whose products are of segments of tokens and their matrices on a layer."""

    name: str

    def arrays(self, routing: Routing) -> list[NDArray[Any]]:
        """Return float32 [N] scales; where features are dropped, also int64 [N] keys of rows,
        positions, and how many levels of a decision drop a feature.
        """
        slots = routing.slot_of_tokens
        scale = routing.scales[slots]
        if not routing.drops or routing.keys is None:
            return [scale]
        levels = routing.adapters.dropped_levels[slots].astype(np.int64)
        return [scale, routing.keys.row, routing.keys.position, levels]

    def products(self, routing: Routing, tensors: Sequence[Tensor]) -> "SegmentProducts":
        """Return the products of a pass, as of `auctune.train.multilora.backends.Backend`."""
        return SegmentProducts(self, routing, tensors)

    def graph_key(self, routing: Routing) -> None:
        """Return that passes cannot be captured: where segments are is part of their launches."""
        return

    @abstractmethod
    def forward(
        self, y: Tensor, x: Tensor, segments: Sequence[LayerSegment], scale: Tensor
    ) -> tuple[Tensor, ...]:
        """Add the adapters' part to y.

        Args:
            y, x: [N, out], [N, in].
            segments: one at least.
            scale: float32 [N, 1].

        Returns:
            What `backward` needs of it.
        """

    @abstractmethod
    def backward(
        self,
        gradient: Tensor,
        x: Tensor,
        saved: Sequence[Tensor],
        segments: Sequence[LayerSegment],
        scale: Tensor,
        grad_x: Tensor | None,
    ) -> None:
        """Add to the gradients of the adapters' matrices, and to that of x.

        Args:
            gradient: of y, [N, out], contiguous.
            x, segments, scale: as of `forward`.
            saved: what `forward` returned.
            grad_x: [N, in], or `None` where x needs no gradient.
        """


class SegmentProducts(PassProducts):
    """Products of one pass by a `SegmentBackend`; dropout is of its input.

    Args:
        backend: whose products.
        routing: of the tokens.
        tensors: those of the backend's `arrays`, on the device.
    """

    def __init__(
        self, backend: SegmentBackend, routing: Routing, tensors: Sequence[Tensor]
    ) -> None:
        super().__init__(routing)
        self._backend, self._adapters = backend, routing.adapters
        by_slot = routing.adapters.by_slot
        self._segments = [(by_slot[slot], *place) for *place, slot in routing.segments.tolist()]
        scale, *self._dropout = tensors
        # Bfloat16 would round it by up to 0.4%, where those who use the adapter have it exactly.
        self._scale = scale.unsqueeze(1)

    def forward(self, y: Tensor, x: Tensor, layer: int) -> tuple[Tensor, ...]:
        """Add the adapters' part to y, as of `auctune.train.multilora.plan.PassProducts`."""
        segments = self._on_layer(layer)
        if not self._dropout:
            return self._backend.forward(y, x, segments, self._scale)
        mask = self._keep_mask(layer, x.shape[1])
        return mask, *self._backend.forward(y, x * mask, segments, self._scale)

    def backward(
        self,
        gradient: Tensor,
        x: Tensor,
        saved: Sequence[Tensor],
        layer: int,
        grad_x: Tensor | None,
    ) -> None:
        """Add to gradients, as of `auctune.train.multilora.plan.PassProducts`."""
        segments = self._on_layer(layer)
        if not self._dropout:
            self._backend.backward(gradient, x, saved, segments, self._scale, grad_x)
            return
        mask, *rest = saved
        # What goes through the adapters alone is dropped.
        through = None if grad_x is None else torch.zeros_like(grad_x)
        self._backend.backward(gradient, x * mask, rest, segments, self._scale, through)
        if grad_x is not None and through is not None:
            grad_x.addcmul_(through, mask.to(grad_x.dtype))

    def _on_layer(self, layer: int) -> list[LayerSegment]:
        module = self._adapters.modules[layer]
        return [
            LayerSegment(first, last, factors)
            for adapter, first, last in self._segments
            if adapter is not None and (factors := adapter.layers.get(module)) is not None
        ]

    def _keep_mask(self, layer: int, features: int) -> Tensor:
        row, position, dropped = self._dropout
        key = int(self._adapters.layer_keys[layer])
        return keep_mask(row, position, key, dropped, features)


class LoopBackend(SegmentBackend):
    """Products segment by segment."""

    name = "loop"

    def forward(
        self, y: Tensor, x: Tensor, segments: Sequence[LayerSegment], scale: Tensor
    ) -> tuple[Tensor, ...]:
        hidden = []
        for first, last, (a, b, *_) in segments:
            own = (x[first:last] @ a.t()).mul_(scale[first:last])
            y[first:last].addmm_(own, b.t())
            hidden.append(own)
        return tuple(hidden)

    def backward(
        self,
        gradient: Tensor,
        x: Tensor,
        saved: Sequence[Tensor],
        segments: Sequence[LayerSegment],
        scale: Tensor,
        grad_x: Tensor | None,
    ) -> None:
        for (first, last, (a, b, grad_a, grad_b)), hidden in zip(segments, saved, strict=True):
            own = gradient[first:last]
            hidden_gradient = (own @ b).mul_(scale[first:last])
            _add_product(grad_a, hidden_gradient.t(), x[first:last])
            _add_product(grad_b, own.t(), hidden)
            if grad_x is not None:
                grad_x[first:last].addmm_(hidden_gradient, a)


def _add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype is into.dtype:
        into.addmm_(left, right)
    else:
        into += left @ right


class _StackedBackend(SegmentBackend):
    """Products of all segments at once, over stacks of matrices that are padded to the largest."""

    alignment = 1

    def forward(
        self, y: Tensor, x: Tensor, segments: Sequence[LayerSegment], scale: Tensor
    ) -> tuple[Tensor, ...]:
        bounds = _bounds(segments)
        rank = max(len(one.factors.a) for one in segments)
        lora_a = self._stack([one.factors.a for one in segments], rank, x.shape[1])
        lora_b = self._stack([one.factors.b for one in segments], y.shape[1], rank)
        hidden = x.new_zeros(len(x), lora_a.shape[1])
        self._add(hidden, x, lora_a.transpose(1, 2), bounds)
        hidden *= scale
        self._add(y, hidden, lora_b.transpose(1, 2), bounds)
        return hidden, lora_a, lora_b

    def backward(
        self,
        gradient: Tensor,
        x: Tensor,
        saved: Sequence[Tensor],
        segments: Sequence[LayerSegment],
        scale: Tensor,
        grad_x: Tensor | None,
    ) -> None:
        hidden, lora_a, lora_b = saved
        bounds = _bounds(segments)
        hidden_gradient = torch.zeros_like(hidden)
        self._add(hidden_gradient, gradient, lora_b, bounds)
        hidden_gradient *= scale
        of_a = self._outer(hidden_gradient, x, bounds)
        of_b = self._outer(hidden, gradient, bounds)
        for (_, _, (a, _, grad_a, grad_b)), one, other in zip(segments, of_a, of_b, strict=True):
            grad_a += one[: len(a), : grad_a.shape[1]]
            grad_b += other[: len(a), : len(grad_b)].t()
        if grad_x is not None:
            self._add(grad_x, hidden_gradient, lora_a, bounds)

    def _stack(self, matrices: Sequence[Tensor], rows: int, columns: int) -> Tensor:
        """Return [n, >= rows, >= columns], aligned, of matrices that are no larger."""
        rows, columns = self._align(rows), self._align(columns)
        is_full = all(one.shape == (rows, columns) for one in matrices)
        make = matrices[0].new_empty if is_full else matrices[0].new_zeros
        stacked = make((len(matrices), rows, columns))
        places = [
            place[: one.shape[0], : one.shape[1]]
            for place, one in zip(stacked, matrices, strict=True)
        ]
        # One launch for all.
        torch._foreach_copy_(places, list(matrices))
        return stacked

    def _align(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    @abstractmethod
    def _add(self, into: Tensor, x: Tensor, stacked: Tensor, bounds: Bounds) -> None:
        """Add x[N, d_in] times each token's matrix [>= d_in, >= d_out] to into[N, d_out]."""

    @abstractmethod
    def _outer(self, left: Tensor, right: Tensor, bounds: Bounds) -> Sequence[Tensor]:
        """Return for each segment left^T right [>= R, >= D], of left [N, R], right [N, D]."""


class BmmBackend(_StackedBackend):
    """One batched product; segments of unequal length are padded to the longest."""

    name = "bmm"

    def _add(self, into: Tensor, x: Tensor, stacked: Tensor, bounds: Bounds) -> None:
        if is_uniform(bounds):
            whole = slice(bounds[0][0], bounds[-1][1])
            length = bounds[0][1] - bounds[0][0]
            target = into[whole].view(len(bounds), length, -1)
            target.baddbmm_(x[whole].view(len(bounds), length, -1), stacked)
            return
        product = torch.bmm(stack_segments(x, bounds), stacked)
        for (first, last), segment in zip(bounds, product, strict=True):
            into[first:last] += segment[: last - first]

    def _outer(self, left: Tensor, right: Tensor, bounds: Bounds) -> Sequence[Tensor]:
        product = stack_segments(left, bounds).transpose(1, 2) @ stack_segments(right, bounds)
        return list(product)


class GroupedBackend(_StackedBackend):
    """torch's grouped_mm: on CUDA one kernel for all segments, whatever their lengths.

    It runs on a CPU too, slowly, which serves the tests; `choose_backend` offers it on CUDA in
    bfloat16 alone.
    """

    name = "grouped"
    alignment = GROUPED_ALIGNMENT

    def _add(self, into: Tensor, x: Tensor, stacked: Tensor, bounds: Bounds) -> None:
        first, last = bounds[0][0], bounds[-1][1]
        padded = pad_columns(x[first:last], stacked.shape[1])
        ends = _group_ends(bounds, x.device)
        product = functional.grouped_mm(padded, self._with_gaps(stacked, bounds), offs=ends)
        into[first:last] += product[:, : into.shape[1]]

    def _outer(self, left: Tensor, right: Tensor, bounds: Bounds) -> Sequence[Tensor]:
        first, last = bounds[0][0], bounds[-1][1]
        padded = pad_columns(left[first:last], self._align(left.shape[1]))
        wide = pad_columns(right[first:last], self._align(right.shape[1]))
        ends = _group_ends(bounds, left.device)
        product = functional.grouped_mm(padded.t(), wide, offs=ends)
        return [product[index] for index, is_gap in enumerate(gaps(bounds)) if not is_gap]

    @staticmethod
    def _with_gaps(stacked: Tensor, bounds: Bounds) -> Tensor:
        pattern = gaps(bounds)
        if not any(pattern):
            return stacked
        whole = stacked.new_zeros(len(pattern), *stacked.shape[1:])
        whole[[index for index, is_gap in enumerate(pattern) if not is_gap]] = stacked
        return whole


def _bounds(segments: Sequence[LayerSegment]) -> Bounds:
    return tuple((one.first, one.last) for one in segments)


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
