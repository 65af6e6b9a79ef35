"""Preemptible job of any torch module with a loss, a source of batches and an optimizer.

Dropout, a data loader's shuffling and a data set's augmentation draw from generators that belong to
the process: those of torch (CPU and device), numpy's older interface and Python. Each job has its
own state of all of them, set while it runs; so its draws do not depend on the jobs that run between
its turns. A source of batches continues from the same position after a pause.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from auctune.domain.errors import CheckpointError, InputError
from auctune.numerics.rng import stream
from auctune.train.checkpoint import Checkpoint
from auctune.train.epoch_sampler import epoch_order
from auctune.train.preemptible import HostOffload, storages


class _Generators(NamedTuple):
    """States in the types of the libraries."""

    torch: Tensor
    numpy: Any
    python: tuple[Any, ...]
    cuda: Tensor | None


class RandomState:
    """State of the global generators that belongs to one job.

    Args:
        seed: of the run.
        names: the purpose of the draws, as of auctune.numerics.rng.stream.
        device: whose generator is included, if it has one of its own.
    """

    def __init__(self, seed: int, *names: str | int, device: torch.device) -> None:
        self._cuda = device if device.type == "cuda" else None
        draws = stream(seed, "random state", *names).integers(0, 2**32, size=2)
        with self._kept():
            torch.manual_seed(int(draws[0]))
            np.random.seed(int(draws[1]))
            random.seed(int(draws[1]))
            self._state = self._capture()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Draw from this state in a block; the process's own generators stay as they were."""
        with self._kept():
            self._put(self._state)
            try:
                yield
            finally:
                self._state = self._capture()

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as tensors by name."""
        version, words, gauss = self._state.python
        assert version == 3
        numpy_words = np.append(self._state.numpy[1].astype(np.int64), self._state.numpy[2:4])
        tensors = {
            "torch": self._state.torch,
            "numpy": torch.from_numpy(numpy_words.astype(np.int64)),
            "numpy_gauss": torch.tensor([self._state.numpy[4]], dtype=torch.float64),
            "python": torch.tensor(words, dtype=torch.int64),
            "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        }
        return tensors if self._state.cuda is None else {**tensors, "cuda": self._state.cuda}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take the state from `tensors`.

        Raises:
            CheckpointError: if a generator's state is missing.
        """
        try:
            words = tensors["numpy"].tolist()
            keys = np.array(words[:-2], dtype=np.uint32)
            gauss = tensors["python_gauss"]
            self._state = _Generators(
                tensors["torch"].clone(),
                ("MT19937", keys, words[-2], words[-1], tensors["numpy_gauss"].item()),
                (3, tuple(tensors["python"].tolist()), gauss.item() if len(gauss) else None),
                None if self._cuda is None else tensors["cuda"].clone(),
            )
        except KeyError as missing:
            raise CheckpointError(f"no state of the generator {missing.args[0]!r}") from None

    @contextmanager
    def _kept(self) -> Iterator[None]:
        before = self._capture()
        try:
            yield
        finally:
            self._put(before)

    def _capture(self) -> _Generators:
        return _Generators(
            torch.get_rng_state(),
            np.random.get_state(legacy=True),
            random.getstate(),
            None if self._cuda is None else torch.cuda.get_rng_state(self._cuda),
        )

    def _put(self, state: _Generators) -> None:
        torch.set_rng_state(state.torch)
        np.random.set_state(state.numpy)
        random.setstate(state.python)
        if state.cuda is not None:
            assert self._cuda is not None
            torch.cuda.set_rng_state(state.cuda, self._cuda)


Batch = Any
"""A tensor, or tuples, lists and dicts of some; usually (inputs, targets)."""

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Returns new inputs of one batch; draws from the generator alone."""


class BatchSource(Protocol):
    """Endless source of batches."""

    def next_batch(self, module: nn.Module) -> Batch:
        """Return the next batch; `module` serves tasks whose data depend on its outputs."""
        ...

    def state(self) -> Checkpoint:
        """Return its position, and data that it has collected."""
        ...

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to the position of a checkpoint.

        Raises:
            CheckpointError: if it is of other data.
        """
        ...


class RowSource:
    """Batches of rows in memory, in a new order each epoch; a batch may span two epochs.

    Args:
        inputs: of all rows, shape (rows, ...).
        targets: of all rows, shape (rows, ...).
        batch_size: rows a batch, 1 to the number of rows.
        seed: of the order and of what `augment` draws.
        augment: of the inputs of each batch, or `None`.
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
        start = self._taken * self._batch_size
        rows = self._between(start, start + self._batch_size)
        inputs = self._inputs[rows]
        if self._augment is not None:
            inputs = self._augment(inputs, generator_of(self._seed, "batch", self._taken))
        self._taken += 1
        return inputs, self._targets[rows]

    def state(self) -> Checkpoint:
        return Checkpoint(state={"rows": len(self._inputs), "taken": self._taken})

    def restore(self, checkpoint: Checkpoint) -> None:
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
    """Return torch's generator for one purpose, always in the same state."""
    return torch.Generator().manual_seed(int(stream(seed, *names).integers(2**63)))


class LoaderSource:
    """Batches of a torch DataLoader, or of another iterable, epoch after epoch.

    A loader has no position to save. Its draws come from generators that are seeded for each epoch:
    a position is restored by skipping the batches of its epoch that were taken.

    Args:
        loader: yields the batches of an epoch each time it is iterated over; a generator of its own
            must be created at each iteration.
        seed: of its draws.
    """

    def __init__(self, loader: Iterable[Any], *, seed: int) -> None:
        self._loader, self._seed = loader, seed
        self._epoch, self._taken = 0, 0
        self._iterator: Iterator[Any] | None = None
        self._random = self._random_of(0)

    def next_batch(self, module: nn.Module) -> Batch:
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
        return Checkpoint(state={"epoch": self._epoch, "taken": self._taken})

    def restore(self, checkpoint: Checkpoint) -> None:
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


Objective = Callable[[nn.Module, Batch], Tensor]
"""Returns the mean loss of a batch, a scalar to run backward from."""


def supervised(loss: Callable[[Tensor, Tensor], Tensor]) -> Objective:
    """Return the objective of batches (inputs, targets): loss(module(inputs), targets)."""

    def objective(module: nn.Module, batch: Batch) -> Tensor:
        inputs, targets = batch
        return loss(module(inputs), targets)

    return objective


class ModuleJob:
    """Torch module in training; a `PreemptibleJob`.

    Args:
        module: to train, on `device` already.
        objective: its loss.
        source: of its batches.
        optimizer: over its parameters.
        seed: of its draws while it trains.
        device: to train on.
        schedule: of the learning rate, stepped after each batch.
        max_grad_norm: to which gradients are clipped; `None`: not at all.
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
        max_grad_norm: float | None = None,
    ) -> None:
        self._module, self._objective, self._source = module.train(), objective, source
        self._optimizer, self._schedule, self._norm = optimizer, schedule, max_grad_norm
        self._device = torch.device(device)
        self._random = RandomState(seed, "thread", device=self._device)
        self._batches = 0
        self._saved_bytes: int | None = None
        self._offload = HostOffload()

    @property
    def batches(self) -> int:
        return self._batches

    @property
    def resting_bytes(self) -> int:
        return sum(storage.nbytes() for storage in storages(self._tensors()))

    @property
    def memory_bytes(self) -> int:
        # Tensors saved for backward are counted on the first batch, and missing before it.
        gradients = sum(tensor.nbytes for tensor in self._parameters())
        return self.resting_bytes + gradients + (self._saved_bytes or 0)

    def step(self, batches: int) -> float:
        return float(self.losses(batches).mean())

    def losses(self, batches: int) -> NDArray[np.float64]:
        """Train a number of batches, >= 1; return the loss of each, shape (batches,)."""
        assert not self._offload.is_offloaded, "an offloaded job cannot train"
        assert batches >= 1
        with self._random.active():
            losses = [self._train_one() for _ in range(batches)]
        # One transfer for all: on a GPU each would wait for the device.
        return torch.stack(losses).double().cpu().numpy()

    def suspend(self) -> None:
        self._offload.offload(self._tensors())

    def resume(self) -> None:
        self._offload.reload()

    def save_result(self, folder: Path) -> None:
        """Write parameters and buffers to `folder`/model.safetensors."""
        # Copies, as safetensors refuses tensors that share memory.
        tensors = {
            name: tensor.detach().to("cpu", copy=True).contiguous()
            for name, tensor in self._module.state_dict().items()
        }
        (folder / "model.safetensors").write_bytes(save(tensors))

    def state(self) -> Checkpoint:
        assert not self._offload.is_offloaded, "the tensors of an offloaded job are empty"
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
        self.resume()
        state, tensors = checkpoint.state, checkpoint.tensors
        try:
            # Optimizers accept an incomplete state, and fail much later.
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
        # Between batches there are no gradients, so that none is kept over a pause.
        self._optimizer.zero_grad(set_to_none=True)
        if self._schedule is not None:
            self._schedule.step()
        self._batches += 1
        return loss.detach()

    def _measured_forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch, and count the bytes saved for backward."""
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
    """Return the argument of the optimizer's `load_state_dict`."""
    values: dict[int, dict[str, Any]] = {}
    for index, numbers in checkpoint.state["numbers"].items():
        values.setdefault(int(index), {}).update(numbers)
    for name, tensor in _of("optimizer", checkpoint.tensors).items():
        index, key = name.split("/", 1)
        values.setdefault(int(index), {})[key] = tensor.clone()
    return {"state": values, "param_groups": checkpoint.state["groups"]}
