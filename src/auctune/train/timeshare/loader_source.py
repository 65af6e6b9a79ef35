"""Batches of a torch DataLoader, or of anything that can be iterated over again and again."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from auctune.domain.errors import InputError
from auctune.train.checkpoint import Checkpoint
from auctune.train.timeshare.random_state import RandomState
from auctune.train.timeshare.source import Batch


class LoaderSource:
    """Epoch after epoch of a loader.

    A loader cannot say where it is. But what it draws, for shuffling and in its data set, comes
    from generators that are seeded anew for each epoch: a place is found again by passing over
    the batches of its epoch that were taken.

    Args:
        loader: gives the batches of an epoch each time it is iterated over; if it draws from a
            generator of its own it must make it anew then.
        seed: of all that it draws.
    """

    def __init__(self, loader: Iterable[Any], *, seed: int) -> None:
        self._loader, self._seed = loader, seed
        self._epoch, self._taken = 0, 0
        self._iterator: Iterator[Any] | None = None
        self._random = self._random_of(0)

    def next_batch(self, module: nn.Module) -> Batch:
        """The loader's next batch; its first after its last.

        Raises:
            InputError: if an epoch is empty.
        """
        if self._iterator is None:
            self._open()
        assert self._iterator is not None
        with self._random.active():
            batch = next(self._iterator, None)
        if batch is None:
            if self._taken == 0:
                raise InputError("data loader", "gives no batch", "one at least in each epoch")
            self._epoch, self._taken, self._iterator = self._epoch + 1, 0, None
            return self.next_batch(module)
        self._taken += 1
        return batch

    def state(self) -> Checkpoint:
        """Epoch, and batches of it taken."""
        return Checkpoint(state={"epoch": self._epoch, "taken": self._taken})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken: as long as loading its epoch's batches up to there."""
        self._epoch, self._taken = checkpoint.state["epoch"], checkpoint.state["taken"]
        self._iterator = None

    def _open(self) -> None:
        self._random = self._random_of(self._epoch)
        with self._random.active():
            self._iterator = iter(self._loader)
            for _ in range(self._taken):
                next(self._iterator)

    def _random_of(self, epoch: int) -> RandomState:
        return RandomState(self._seed, "epoch", epoch, device=torch.device("cpu"))
