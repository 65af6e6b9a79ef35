"""What the fused layers of a model need to know of the running pass: which token is whose.

A pass is over N tokens, in the order in which the model flattens them; those of one adapter's rows
are a segment. The plan is made once a pass and shared by all layers, which find it in a
`PassContext`, since a model's forward method has no argument for it. It is set until the backward
pass has ended: gradient checkpointing runs forward passes within it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.train.multilora.dropout import keep_mask, keep_scale, num_dropped_levels
from auctune.train.multilora.weights import AdapterWeights, LayerFactors


class Segment(NamedTuple):
    """Tokens first, first + 1, ..., last - 1 of a pass, which belong to one adapter."""

    adapter: AdapterWeights
    first: int
    last: int


class LayerSegment(NamedTuple):
    """Tokens first, first + 1, ..., last - 1 of a pass, and their adapter's matrices on a layer."""

    first: int
    last: int
    factors: LayerFactors


@dataclass(frozen=True)
class TokenKeys:
    """By what dropout of each token is decided.

    Attributes:
        row: int64 [N], of its row, as of `row_key`.
        position: int64 [N], in its row.
    """

    row: NDArray[np.int64]
    position: NDArray[np.int64]


class PassPlan:
    """Assignment of a pass's tokens to adapters.

    Args:
        segments: in the order of their tokens; tokens of none are the base's alone.
        tensors: those of `plan_arrays`, on the device of the model.

    Attributes:
        num_tokens: N.
        scale: float32 [N, 1], s_i k_i of each token: bfloat16 would round it by up to 0.4%, where
            those who use the adapter have it exactly.
    """

    def __init__(self, segments: Sequence[Segment], tensors: Sequence[Tensor]) -> None:
        self.segments = tuple(segments)
        scale, *self._dropout = tensors
        self.num_tokens, self.scale = len(scale), scale.unsqueeze(1)

    def on_layer(self, module: str) -> list[LayerSegment]:
        """Return the segments whose adapters adapt a module."""
        return [
            LayerSegment(first, last, factors)
            for adapter, first, last in self.segments
            if (factors := adapter.layers.get(module)) is not None
        ]

    def keep_mask(self, layer_key: int, features: int) -> Tensor | None:
        """Return which features of a layer's input are kept: bool [N, features]; None: all."""
        if not self._dropout:
            return None
        row, position, dropped = self._dropout
        return keep_mask(row, position, layer_key, dropped, features)


def plan_arrays(
    segments: Sequence[Segment], num_tokens: int, keys: TokenKeys | None = None
) -> list[NDArray[Any]]:
    """Return what a plan needs to know of each token.

    Args:
        segments: as of `PassPlan`.
        num_tokens: N.
        keys: of tokens, where features are dropped; `None`: none are.

    Returns:
        float32 [N] scales; where features are dropped, int64 [N] keys of rows, positions, and how
        many levels of a decision drop a feature.
    """
    places = [0, *(place for one in segments for place in (one.first, one.last)), num_tokens]
    if places != sorted(places) or any(one.first == one.last for one in segments):
        raise ValueError(f"segments do not lie one after the other in {num_tokens} tokens")
    scale, levels = np.zeros(num_tokens, np.float32), np.zeros(num_tokens, np.int64)
    for adapter, first, last in segments:
        rate = 0.0 if keys is None else float(adapter.config.lora_dropout)
        scale[first:last] = adapter.scale * keep_scale(rate)
        levels[first:last] = num_dropped_levels(rate)
    return [scale] if keys is None or not levels.any() else [scale, keys.row, keys.position, levels]


class PassContext:
    """Holder of the plan of the running pass, which all fused layers of a model share.

    Attributes:
        plan: of the running pass, if any.
        anchor: what has autograd go through a layer whose input needs no gradient: the gradients of
            adapters go straight into their flat tensors.
    """

    def __init__(self, device: torch.device) -> None:
        self.plan: PassPlan | None = None
        self.anchor = torch.zeros((), device=device, requires_grad=True)

    @contextmanager
    def active(self, plan: PassPlan) -> Iterator[None]:
        """Set the plan for a block; forward and backward pass both belong inside."""
        if self.plan is not None:
            raise ValueError("a pass is running already; passes do not nest")
        self.plan = plan
        try:
            yield
        finally:
            self.plan = None
