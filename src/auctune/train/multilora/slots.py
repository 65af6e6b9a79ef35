"""The adapters on a model, each in a slot: what passes look up for all of them at once.

Slots and layers have numbers, and arrays say which adapter is where. So the work of a pass in
Python does not grow with the adapters, and kernels find them in tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from auctune.train.multilora.dropout import keep_scale, layer_key, num_dropped_levels
from auctune.train.multilora.weights import LORA_A, LORA_B, AdapterWeights


class AdapterSlots(Mapping[str, AdapterWeights]):
    """The adapters on a model, by name, and arrays of them, by slot.

    The arrays are made anew when adapters come or go: a pass keeps those that it began with.

    Args:
        modules: names of the linear modules of the model; layer l is the l-th of them.

    Attributes:
        modules: by layer.
        layer_keys: int64 [layers], of dropout masks.
        by_slot: the adapters; `None` where a slot is free. There are 8, 16, 32, ... slots.
        version: number of changes.
        ranks: int32 [slots], 0 of a free one.
        offsets: int64 [layers, slots, 2], numbers before A and before B in the flat tensors of an
            adapter; -1: it is not on the layer.
        dropped_levels: int32 [slots + 1], of `num_dropped_levels`; the last is 0, for tokens of no
            adapter.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = tuple(modules)
        self._layers = {module: layer for layer, module in enumerate(modules)}
        self.layer_keys = np.array([layer_key(module) for module in modules], np.int64)
        self.by_slot: tuple[AdapterWeights | None, ...] = ()
        self.version = 0
        self._slots: dict[str, int] = {}
        self._offsets: dict[str, NDArray[np.int64]] = {}
        self._fill([])

    def __getitem__(self, name: str) -> AdapterWeights:
        adapter = self.by_slot[self._slots[name]]
        assert adapter is not None
        return adapter

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def slot(self, name: str) -> int:
        """Return the slot of an adapter."""
        return self._slots[name]

    def add(self, adapter: AdapterWeights) -> None:
        """Put an adapter into the first free slot."""
        assert adapter.name not in self._slots, f"an adapter {adapter.name!r} is there already"
        places = list(self.by_slot)
        if None not in places:
            places += [None] * max(8, len(places))
        slot = places.index(None)
        places[slot] = adapter
        self._slots[adapter.name] = slot
        self._offsets[adapter.name] = self._places(adapter)
        self._fill(places)

    def remove(self, name: str) -> None:
        """Free the slot of an adapter."""
        places = list(self.by_slot)
        places[self._slots.pop(name)] = None
        del self._offsets[name]
        self._fill(places)

    def addresses(self) -> tuple[int, ...]:
        """Return where the weights and the gradients of each adapter are in memory."""
        found = [one for one in self.by_slot if one is not None]
        return tuple([flat.data_ptr() for one in found for flat in (one.compute, one.gradients)])

    def scales(self, *, training: bool) -> NDArray[np.float32]:
        """Return float32 [slots + 1]: s_i, in training times the keep scale; the last is 0."""
        return self._training_scales if training else self._plain_scales

    def cast_values(self, slots: Iterable[int]) -> None:
        """Have passes compute with the values of some adapters as they are now."""
        cast([one for slot in slots if (one := self.by_slot[slot]) is not None])

    def _places(self, adapter: AdapterWeights) -> NDArray[np.int64]:
        """Return the `offsets` [layers, 2] of an adapter."""
        found = np.full((len(self.modules), 2), -1, np.int64)
        start = 0
        for name, shape in adapter.shapes.items():
            for part, suffix in enumerate((LORA_A, LORA_B)):
                if name.endswith(suffix):
                    found[self._layers[name.removesuffix(suffix)], part] = start
            start += int(np.prod(shape))
        return found

    def _fill(self, adapters: Sequence[AdapterWeights | None]) -> None:
        """Make the arrays of adapters by slot."""
        self.by_slot = tuple(adapters)
        self.version += 1
        ranks = [0 if one is None else one.config.r for one in adapters]
        rates = [0.0 if one is None else float(one.config.lora_dropout) for one in adapters]
        scales = [0.0 if one is None else one.scale for one in adapters]
        kept = [scale * keep_scale(rate) for scale, rate in zip(scales, rates, strict=True)]
        self.ranks = np.array(ranks, np.int32)
        self.dropped_levels = np.array([*map(num_dropped_levels, rates), 0], np.int32)
        self._plain_scales = np.array([*scales, 0.0], np.float32)
        self._training_scales = np.array([*kept, 0.0], np.float32)
        nowhere = np.full((len(self.modules), 2), -1, np.int64)
        offsets = [nowhere if one is None else self._offsets[one.name] for one in adapters]
        self.offsets = np.stack([*offsets, nowhere], axis=1)[:, :-1]


@torch.no_grad()
def cast(adapters: Sequence[AdapterWeights]) -> None:
    """Have passes compute with the values of adapters as they are now: one launch for all."""
    others = [one for one in adapters if one.compute is not one.values]
    if others:
        torch._foreach_copy_([one.compute for one in others], [one.values for one in others])
