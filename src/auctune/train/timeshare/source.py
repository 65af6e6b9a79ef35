"""Where a thread's batches come from, in an order that a pause does not change."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from auctune.domain.errors import CheckpointError
from auctune.numerics.rng import stream
from auctune.train.checkpoint import Checkpoint
from auctune.train.cursor import epoch_order

Batch = Any
"""A tensor, or tuples, lists and dicts of some; usually (inputs, targets)."""

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""New inputs of one batch from its inputs, by draws of the generator alone."""


class BatchSource(Protocol):
    """Batches without end."""

    def next_batch(self, module: nn.Module) -> Batch:
        """The next batch; `module` is there for tasks that learn from what it does."""
        ...

    def state(self) -> Checkpoint:
        """Its place, and what it has gathered."""
        ...

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken; CheckpointError if it is of other data."""
        ...


class RowSource:
    """Batches of rows in memory, in a new order each epoch; a batch may span two epochs.

    Args:
        inputs: of all rows, shape (rows, ...).
        targets: of all rows, shape (rows, ...).
        batch_size: rows a batch, 1 to the number of rows.
        seed: of the order and of what `augment` draws.
        augment: changes the inputs of each batch anew; none: they stay.
    """

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        *,
        batch_size: int,
        seed: int,
        augment: Augment | None = None,
    ) -> None:
        if not 1 <= batch_size <= len(inputs):
            raise ValueError(f"batch_size {batch_size}; expected 1 to {len(inputs)} rows")
        self._inputs, self._targets = inputs, targets
        self._batch_size, self._seed, self._augment = batch_size, seed, augment
        self._taken = 0
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def next_batch(self, module: nn.Module) -> Batch:
        """(inputs, targets) of the next rows."""
        start = self._taken * self._batch_size
        rows = self._between(start, start + self._batch_size)
        inputs = self._inputs[rows]
        if self._augment is not None:
            inputs = self._augment(inputs, generator_of(self._seed, "batch", self._taken))
        self._taken += 1
        return inputs, self._targets[rows]

    def state(self) -> Checkpoint:
        """The number of batches taken: all else follows from it."""
        return Checkpoint(state={"rows": len(self._inputs), "taken": self._taken})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken; CheckpointError if it is of other data."""
        rows = checkpoint.state.get("rows")
        if rows != len(self._inputs):
            raise CheckpointError(
                f"data of {rows} rows in the checkpoint, {len(self._inputs)} here"
            )
        self._taken = checkpoint.state["taken"]

    def _between(self, start: int, stop: int) -> Tensor:
        parts: list[Tensor] = []
        while start < stop:
            epoch, first = divmod(start, len(self._inputs))
            last = min(len(self._inputs), first + stop - start)
            parts.append(self._order_of(epoch)[first:last])
            start += last - first
        return torch.cat(parts)

    def _order_of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            order = torch.from_numpy(epoch_order(len(self._inputs), self._seed, epoch))
            self._epoch, self._order = epoch, order
        return self._order


def generator_of(seed: int, *names: str | int) -> torch.Generator:
    """A generator of torch for one purpose, the same whenever it is asked for."""
    return torch.Generator().manual_seed(int(stream(seed, *names).integers(2**63)))
