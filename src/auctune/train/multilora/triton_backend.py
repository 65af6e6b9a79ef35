"""Backend of the kernels of `triton_kernels`: two launches a layer forward, and four backward.

Importing this module needs triton.
"""

import logging
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig
from torch import Tensor

from auctune.train.multilora.plan import PassProducts, Routing, TokenKeys
from auctune.train.multilora.segment_backends import LoopBackend
from auctune.train.multilora.slots import AdapterSlots
from auctune.train.multilora.transfer import to_device
from auctune.train.multilora.triton_kernels import (
    AdapterTable,
    Dropout,
    TokenBlocks,
    block_arrays,
    lora_backward,
    lora_down,
    lora_up,
)
from auctune.train.multilora.weights import LORA_A, LORA_B, new_weights
from auctune.train.out_of_memory import is_out_of_memory

_log = logging.getLogger(__name__)

_TRIED_RANKS = (16, 4)
_TRIED_TOKENS, _TRIED_INPUTS, _TRIED_OUTPUTS = 40, 64, 48
# Sums in other orders differ by less, wrong values by more: 64 terms of 0.4% each in bfloat16.
_TOLERANCE = 16


class TritonBackend:
    """Products by Triton kernels, on a device: see `auctune.train.multilora.backends.Backend`."""

    name = "triton"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._table: AdapterTable | None = None
        # Of which adapters it is, and where they were.
        self._places: tuple[Hashable, ...] = ()

    def arrays(self, routing: Routing) -> list[NDArray[Any]]:
        """Return those of `block_arrays`."""
        dropout, keys = None, routing.keys
        if routing.drops and keys is not None:
            levels = routing.adapters.dropped_levels[:-1]
            dropout = Dropout(keys.row, keys.position.astype(np.int32), levels)
        return block_arrays(
            routing.segments,
            routing.scales[:-1],
            dropout,
            max_tokens=_max_tokens(routing),
            max_segments=routing.max_segments,
        )

    def products(self, routing: Routing, tensors: Sequence[Tensor]) -> "TritonProducts":
        """Return the products of a pass."""
        blocks = TokenBlocks.of(routing.segments, tensors, max_tokens=_max_tokens(routing))
        return TritonProducts(routing, self._table_of(routing), blocks)

    def graph_key(self, routing: Routing) -> Hashable:
        """Return where the table of adapters is, and what it says of all of them."""
        table = self._table_of(routing)
        constants = (table.padded_rank, table.alignment, table.rank_alignment, len(table.ranks))
        # Layers that no adapter of the pass is on launch nothing.
        return table.buffer.data_ptr(), *constants, *routing.adapted_layers

    def _table_of(self, routing: Routing) -> AdapterTable:
        """Return where weights and gradients are; written to the device when that changes.

        Adapters come and go, and suspended ones come back in other memory. The table stays in its
        place if it is of as many slots: captured passes read it there.
        """
        adapters = routing.adapters
        places = (id(adapters), adapters.version, *adapters.addresses())
        table = self._table
        if table is None or places != self._places:
            same = table is not None and len(table.ranks) == len(adapters.ranks)
            self._table = table = AdapterTable.build(
                [None if one is None else one.compute for one in adapters.by_slot],
                [None if one is None else one.gradients for one in adapters.by_slot],
                adapters.offsets,
                adapters.ranks,
                adapters.layer_keys,
                self._device,
                table.buffer if same and table is not None else None,
            )
            self._places = places
        return table.of_ranks(adapters.ranks[routing.slots])


def _max_tokens(routing: Routing) -> int | None:
    return None if routing.max_segments is None else routing.num_tokens


class TritonProducts(PassProducts):
    """Products of one pass: see `auctune.train.multilora.plan.PassProducts`."""

    def __init__(self, routing: Routing, table: AdapterTable, blocks: TokenBlocks) -> None:
        super().__init__(routing)
        self._table, self._blocks = table, blocks

    def forward(self, y: Tensor, x: Tensor, layer: int) -> tuple[Tensor, ...]:
        """Add the adapters' part to y; return hidden states."""
        hidden = lora_down(x, self._table, layer, self._blocks)
        lora_up(y, hidden, self._table, layer, self._blocks)
        return (hidden,)

    def backward(
        self,
        gradient: Tensor,
        x: Tensor,
        saved: Sequence[Tensor],
        layer: int,
        grad_x: Tensor | None,
    ) -> None:
        """Add to the gradients of the adapters' matrices, and to that of x."""
        (hidden,) = saved
        lora_backward(gradient, x, hidden, grad_x, self._table, layer, self._blocks)


@lru_cache
def failure(device: torch.device, dtype: torch.dtype) -> str:
    """Return in what the kernels fail on a device, and log it; empty: they work.

    They are tried once on a small layer, two adapters with dropout, against matrix products.
    """
    found = ""
    try:
        expected = _tried(LoopBackend(), device, dtype)
        for one, other in zip(expected, _tried(TritonBackend(device), device, dtype), strict=True):
            error = float((one - other).abs().max())
            allowed = _TOLERANCE * torch.finfo(dtype).eps * float(one.abs().max())
            if not error <= allowed:
                found = f"a product differs by {error:.3g}, {allowed:.3g} may be rounding"
    # Compilers and drivers raise errors of any type; memory may be short for a moment only.
    except Exception as error:
        if is_out_of_memory(error):
            raise
        found = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if found:
        _log.warning("Triton kernels are not used on %s: %s", device, found)
    return found


@torch.no_grad()
def _tried(
    backend: LoopBackend | TritonBackend, device: torch.device, dtype: torch.dtype
) -> list[Tensor]:
    """Return output, gradient of the input, and gradients of adapters, of a small layer."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    slots = AdapterSlots(["layer"])
    for rank in _TRIED_RANKS:
        shapes = {"layer" + LORA_A: (rank, _TRIED_INPUTS), "layer" + LORA_B: (_TRIED_OUTPUTS, rank)}
        config = LoraConfig(r=rank, lora_dropout=0.1)
        adapter = new_weights(f"rank {rank}", config, shapes, device, dtype, trains=True)
        adapter.values.copy_(random(len(adapter.values), dtype=torch.float32))
        slots.add(adapter)
    slots.cast_values(range(len(_TRIED_RANKS)))
    places = np.arange(_TRIED_TOKENS)
    routing = Routing.of_rows(slots, [0, 1], np.array([0, 24, 40]), TokenKeys(places, places))
    products = backend.products(routing, to_device(backend.arrays(routing), device))
    x, y = random(_TRIED_TOKENS, _TRIED_INPUTS), random(_TRIED_TOKENS, _TRIED_OUTPUTS)
    y_gradient, x_gradient = torch.ones_like(y), torch.zeros_like(x)
    saved = products.forward(y, x, 0)
    products.backward(y_gradient, x, saved, 0, x_gradient)
    return [y, x_gradient, *(one.gradients for one in slots.values())]
