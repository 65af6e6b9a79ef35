"""What the fused layers of a model need to know of the running pass: which token is whose.

A pass is over N tokens, in the order in which the model flattens them; those of one adapter's rows
are a segment. What the adapters' products need of that is made once a pass, and shared by all
layers, which find it in a `PassContext`, since a model's forward method has no argument for it. It
is set until the backward pass has ended: gradient checkpointing runs forward passes within it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.train.multilora.slots import AdapterSlots


@dataclass(frozen=True)
class TokenKeys:
    """Keys of the dropout of each token.

    Attributes:
        row: int64 [N], of its row, as of `row_key`.
        position: int64 [N], in its row.
    """

    row: NDArray[np.int64]
    position: NDArray[np.int64]


@dataclass(frozen=True)
class Routing:
    """Assignment of a pass's tokens to adapters, on the host.

    Attributes:
        adapters: those on the model.
        segments: int32 [segments, 3]: first token, end, and slot, in the order of tokens. Tokens of
            none are the base's alone.
        num_tokens: N.
        keys: of tokens, where adapters drop features; `None`: none are dropped.
        max_segments: for as many the tables of a backend have room: with equal ones, tables of
            passes over equally many tokens have equal sizes; `None`: for those that there are.
    """

    adapters: AdapterSlots
    segments: NDArray[np.int32]
    num_tokens: int
    keys: TokenKeys | None = None
    max_segments: int | None = None

    def __post_init__(self) -> None:
        bounds = self.segments[:, :2]
        places = np.array([0, *bounds.ravel(), self.num_tokens])
        if (np.diff(places) < 0).any() or (bounds[:, 0] == bounds[:, 1]).any():
            found = f"segments do not lie one after the other in {self.num_tokens} tokens"
            raise ValueError(found)

    @classmethod
    def of_rows(
        cls,
        adapters: AdapterSlots,
        slots: Sequence[int],
        starts: NDArray[np.integer[Any]],
        keys: TokenKeys | None = None,
    ) -> Self:
        """Return the routing of rows; neighbours of one adapter are one segment.

        Args:
            adapters, keys: as of the routing.
            slots: of each row; -1: the base alone.
            starts: [rows + 1], first token of each row, and the end of the last.
        """
        of_rows = np.asarray(slots)
        changes = np.flatnonzero(np.diff(of_rows)) + 1
        first, end = np.append(0, changes), np.append(changes, len(of_rows))
        segments = np.stack([starts[first], starts[end], of_rows[first]], axis=1)
        chosen = segments[segments[:, 2] >= 0].astype(np.int32)
        return cls(adapters, chosen, int(starts[-1]), keys)

    @cached_property
    def slots(self) -> NDArray[np.int32]:
        """Slots that have tokens."""
        return np.unique(self.segments[:, 2])

    @cached_property
    def drops(self) -> bool:
        """Return whether any feature may be dropped."""
        return self.keys is not None and bool(self.adapters.dropped_levels[self.slots].any())

    @cached_property
    def scales(self) -> NDArray[np.float32]:
        """Float32 [slots + 1], as of `AdapterSlots.scales`."""
        return self.adapters.scales(training=self.keys is not None)

    @cached_property
    def slot_of_tokens(self) -> NDArray[np.int64]:
        """Int64 [N], the slot of each token; -1: the base alone."""
        places = np.array([0, *self.segments[:, :2].ravel(), self.num_tokens])
        slots = np.full(len(places) - 1, -1, np.int64)
        slots[1::2] = self.segments[:, 2]
        return np.repeat(slots, np.diff(places))

    @cached_property
    def adapted_layers(self) -> list[bool]:
        """Return whether each layer is adapted by an adapter of the pass."""
        is_on = self.adapters.offsets[:, self.slots, 0] >= 0
        return [bool(row.any()) for row in is_on]


class PassProducts(ABC):
    """Products of the tokens of a pass with their adapters' matrices: see `backends`.

    Args:
        routing: of the tokens.

    Attributes:
        num_tokens: N.
    """

    def __init__(self, routing: Routing) -> None:
        self.num_tokens = routing.num_tokens
        self._adapted = routing.adapted_layers

    def adapts(self, layer: int) -> bool:
        """Return whether any adapter of the pass is on a layer; the others are not asked for."""
        return self._adapted[layer]

    @abstractmethod
    def forward(self, y: Tensor, x: Tensor, layer: int) -> tuple[Tensor, ...]:
        """Add the adapters' part to y; return what `backward` needs of it.

        Args:
            y, x: [N, out], [N, in]: output and input of the layer.
            layer: its number.
        """

    @abstractmethod
    def backward(
        self,
        gradient: Tensor,
        x: Tensor,
        saved: Sequence[Tensor],
        layer: int,
        grad_x: Tensor | None,
    ) -> None:
        """Add to the gradients of the adapters' matrices, and to that of x.

        Args:
            gradient: of y, [N, out], contiguous.
            x, layer: as of `forward`.
            saved: what `forward` returned.
            grad_x: [N, in], or `None` where x needs no gradient.
        """


class PassContext:
    """Holder of the products of the running pass, which all fused layers of a model share.

    Attributes:
        products: of the running pass, if any.
        anchor: what has autograd go through a layer whose input needs no gradient: the gradients of
            adapters go straight into their flat tensors.
    """

    def __init__(self, device: torch.device) -> None:
        self.products: PassProducts | None = None
        self.anchor = torch.zeros((), device=device, requires_grad=True)

    @contextmanager
    def active(self, products: PassProducts) -> Iterator[None]:
        """Set the products for a block; forward and backward pass both belong inside."""
        if self.products is not None:
            raise ValueError("a pass is running already; passes do not nest")
        self.products = products
        try:
            yield
        finally:
            self.products = None
