"""The most memory that a piece of work takes beyond what was there before it.

CUDA counts what its allocator hands out. A CPU's allocator does not count, so there the storages
of all results of torch's operations are counted while they live. Scratch space inside a single
operation is not seen; it is small and short-lived.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """Bytes that `work` takes at its peak on `device`, beyond those taken before it."""
    if device.type == "cpu":
        live = _LiveStorages()
        with live:
            work()
        return live.peak
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = held_bytes(device)
    work()
    torch.cuda.synchronize(device)
    return int(torch.cuda.max_memory_allocated(device)) - before


def held_bytes(device: torch.device) -> int:
    """Bytes that tensors hold on a GPU; 0 on a CPU, which does not count them."""
    return int(torch.cuda.memory_allocated(device)) if device.type == "cuda" else 0


def reserved_bytes(device: torch.device) -> int:
    """Bytes that a GPU's allocator can give to nothing else: of tensors, and of CUDA graphs."""
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_reserved(device))


class _LiveStorages(TorchDispatchMode):
    """Counts the bytes of storages that come up inside the block, as long as they live."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for tensor in _tensors((args, kwargs)):
            self._note(tensor, size=0)
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            self._note(tensor, size=tensor.untyped_storage().nbytes())
        self.peak = max(self.peak, self.now)
        return result

    def _note(self, tensor: Tensor, size: int) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._known:
            self._known.add(key)
            self.now += size
            weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_iter(tree) if isinstance(leaf, Tensor)]
