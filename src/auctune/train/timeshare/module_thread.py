"""Any torch module with a loss, batches and an optimizer, as a thread of the pool."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from auctune.domain.errors import CheckpointError
from auctune.train.checkpoint import Checkpoint
from auctune.train.timeshare.random_state import RandomState
from auctune.train.timeshare.shelf import Shelf, storages
from auctune.train.timeshare.source import Batch, BatchSource

Objective = Callable[[nn.Module, Batch], Tensor]
"""The mean loss of a batch, a scalar to run backward from."""


def supervised(loss: Callable[[Tensor, Tensor], Tensor]) -> Objective:
    """The objective of batches (inputs, targets): loss(module(inputs), targets)."""

    def objective(module: nn.Module, batch: Batch) -> Tensor:
        inputs, targets = batch
        return loss(module(inputs), targets)

    return objective


class ModuleThread:
    """See `auctune.train.timeshare.thread.TrainingThread`.

    Args:
        module: to train, on `device` already.
        objective: its loss.
        source: of its batches.
        optimizer: over its parameters.
        seed: of all that is drawn while it trains.
        device: to train on.
        schedule: of the learning rate, moved on after each batch.
        largest_norm: to which gradients are clipped; none: they are not.
    """

    def __init__(
        self,
        module: nn.Module,
        objective: Objective,
        source: BatchSource,
        optimizer: Optimizer,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        schedule: LRScheduler | None = None,
        largest_norm: float | None = None,
    ) -> None:
        self._module, self._objective, self._source = module.train(), objective, source
        self._optimizer, self._schedule, self._norm = optimizer, schedule, largest_norm
        self._device = torch.device(device)
        self._random = RandomState(seed, "thread", device=self._device)
        self._batches = 0
        self._saved_bytes: int | None = None
        self._shelf = Shelf()

    @property
    def batches(self) -> int:
        """Batches trained so far."""
        return self._batches

    @property
    def resting_bytes(self) -> int:
        """Parameters, buffers and the optimizer's tensors."""
        return sum(storage.nbytes() for storage in storages(self._tensors()))

    @property
    def memory_bytes(self) -> int:
        """What rests, gradients, and what backward needs.

        The last is of the first batch that it trained; before that it is not in the sum.
        """
        gradients = sum(tensor.nbytes for tensor in self._parameters())
        return self.resting_bytes + gradients + (self._saved_bytes or 0)

    def step(self, batches: int) -> float:
        """Train that many batches, >= 1; returns the mean of their losses."""
        return float(self.losses(batches).mean())

    def losses(self, batches: int) -> NDArray[np.float64]:
        """Train that many batches, >= 1; returns the loss of each, shape (batches,)."""
        assert not self._shelf.is_full, "a suspended thread trains nothing"
        assert batches >= 1
        with self._random.active():
            losses = [self._train_one() for _ in range(batches)]
        # One transfer for all: on a GPU each would wait for the device.
        return torch.stack(losses).double().cpu().numpy()

    def suspend(self) -> None:
        """Leave the device's memory; everything is kept on the host."""
        self._shelf.put(self._tensors())

    def resume(self) -> None:
        """Come back to the device; nothing if it is there."""
        self._shelf.take()

    def save_result(self, folder: Path) -> None:
        """Write the module's parameters and buffers to `folder`/model.safetensors."""
        # Copies, as safetensors refuses tensors that share memory.
        tensors = {
            name: tensor.detach().to("cpu", copy=True).contiguous()
            for name, tensor in self._module.state_dict().items()
        }
        (folder / "model.safetensors").write_bytes(save(tensors))

    def state(self) -> Checkpoint:
        """Everything that `restore` needs; the thread must not be suspended."""
        assert not self._shelf.is_full, "a suspended thread's tensors are empty"
        source, optimizer = self._source.state(), self._optimizer.state_dict()
        tensors = {
            **_within("module", self._module.state_dict()),
            **_within("random", self._random.tensors()),
            **_within("source", source.tensors),
        }
        numbers: dict[str, dict[str, Any]] = {}
        for index, values in optimizer["state"].items():
            for key, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer/{index}/{key}"] = value.detach().clone()
                else:
                    numbers.setdefault(str(index), {})[key] = value
        return Checkpoint(
            {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()},
            {
                "batches": self._batches,
                "saved_bytes": self._saved_bytes,
                "groups": deepcopy(optimizer["param_groups"]),
                "numbers": numbers,
                "schedule": deepcopy(self._schedule.state_dict()) if self._schedule else None,
                "source": source.state,
                "tensors": sorted(tensors),
                "torch": torch.__version__,
            },
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken.

        Raises:
            CheckpointError: if it is of another module or data, or a part is missing.
        """
        self.resume()
        state, tensors = checkpoint.state, checkpoint.tensors
        try:
            # Optimizers take what they are given, and miss the rest much later.
            for name in state["tensors"]:
                tensors[name]
            self._module.load_state_dict(_of("module", tensors))
            self._optimizer.load_state_dict(_optimizer_state(checkpoint))
            self._source.restore(Checkpoint(_of("source", tensors), state["source"]))
            if self._schedule is not None:
                self._schedule.load_state_dict(state["schedule"])
            self._batches, self._saved_bytes = state["batches"], state["saved_bytes"]
        except KeyError as missing:
            raise CheckpointError(f"the checkpoint has no {missing.args[0]!r}") from None
        except (RuntimeError, ValueError) as error:
            # The first line names the module, the second the first difference.
            lines = [line.strip() for line in str(error).splitlines()][:2]
            raise CheckpointError("is of another module: " + " ".join(lines)) from None
        self._random.restore(_of("random", tensors))

    def _train_one(self) -> Tensor:
        batch = _to_device(self._source.next_batch(self._module), self._device)
        if self._saved_bytes is None:
            loss = self._measured_forward(batch)
        else:
            loss = self._objective(self._module, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._norm is not None:
            nn.utils.clip_grad_norm_(self._module.parameters(), self._norm)
        self._optimizer.step()
        # Between batches there are no gradients, so that none need be kept over a pause.
        self._optimizer.zero_grad(set_to_none=True)
        if self._schedule is not None:
            self._schedule.step()
        self._batches += 1
        return loss.detach()

    def _measured_forward(self, batch: Batch) -> Tensor:
        """The loss of a batch, while the bytes that backward will need are counted."""
        held = {storage.data_ptr() for storage in storages(self._tensors())}
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in held:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = self._objective(self._module, batch)
        self._saved_bytes = sum(kept.values())
        return loss

    def _parameters(self) -> Iterator[Tensor]:
        """Those that have gradients while a batch is trained."""
        return (tensor for tensor in self._module.parameters() if tensor.requires_grad)

    def _tensors(self) -> Iterator[Tensor]:
        yield from self._module.parameters()
        yield from self._module.buffers()
        for values in self._optimizer.state.values():
            yield from (value for value in values.values() if isinstance(value, Tensor))


def _to_device(batch: Batch, device: torch.device) -> Batch:
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: _to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(_to_device(value, device) for value in batch)
    return batch


def _within(part: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{part}/{name}": tensor for name, tensor in tensors.items()}


def _of(part: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{part}/"
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }


def _optimizer_state(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the optimizer's `load_state_dict` takes, put together again."""
    values: dict[int, dict[str, Any]] = {}
    for index, numbers in checkpoint.state["numbers"].items():
        values.setdefault(int(index), {}).update(numbers)
    for name, tensor in _of("optimizer", checkpoint.tensors).items():
        index, key = name.split("/", 1)
        values.setdefault(int(index), {})[key] = tensor.clone()
    return {"state": values, "param_groups": checkpoint.state["groups"]}
