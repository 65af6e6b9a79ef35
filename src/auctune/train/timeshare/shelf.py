"""Memory of a device lent back while a thread is not at work.

Tensors keep their identity but hold no memory: the bytes of every storage are copied to the host,
the storage is emptied, and filled again on return. So optimizers, tied weights and whatever else
refers to a parameter need not know.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


class Shelf:
    """Where a thread's bytes lie while it is suspended."""

    def __init__(self) -> None:
        self._copies: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether something lies on it."""
        return self._copies is not None

    def put(self, tensors: Iterable[Tensor]) -> None:
        """Copy the bytes of tensors to the host and empty them; nothing if that was done."""
        if self._copies is None:
            self._copies = [(storage, _host_copy(storage)) for storage in storages(tensors)]
            for storage, _ in self._copies:
                storage.resize_(0)

    def take(self) -> None:
        """Give the bytes back; nothing if there are none."""
        for storage, copy in self._copies or []:
            storage.resize_(copy.nbytes())
            storage.copy_(copy)
        self._copies = None


def storages(tensors: Iterable[Tensor]) -> list[torch.UntypedStorage]:
    """The storages of tensors, each once though several share it."""
    by_pointer = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.nbytes():
            by_pointer[storage.data_ptr()] = storage
    return list(by_pointer.values())


def _host_copy(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    copy = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
    copy.copy_(storage)
    return copy
