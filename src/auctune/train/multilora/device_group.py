"""The devices of a node: each computes a share of a round's passes, and gradients are added up.

The trainer's process leads: it alone has the jobs, their optimizers and their place in the data,
and computes on the first device. Each further device has a process, a follower, with the base and,
of each adapter, its values and a gradient tensor. A round of several devices is

1. the leader sends each follower its micro-batches, and broadcasts the adapters' values;
2. all compute their passes; followers answer with sums of losses and hits, or with the micro-batch
   that did not fit into memory;
3. if all passes of training fitted, the flat gradients are reduced to the leader's, one tensor an
   adapter; it steps as it would alone.

So what a step, a checkpoint or a clipped norm sees is the whole gradient. Collectives begin once
all devices have answered that they are ready for them: memory that runs out on one device leaves no
other waiting. Shares follow from the rows of a round, and on CPUs a reduction adds in a fixed
order, so a run that is repeated there has the same bits; NCCL chooses its order by itself.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig
from torch import Tensor, distributed

from auctune.domain.errors import AuctuneError
from auctune.train.multilora.batching import BatchRow, MicroBatch
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.weights import AdapterWeights, new_weights
from auctune.train.out_of_memory import free_cache, run_or_out_of_memory

Parts = Sequence[Sequence[MicroBatch]]
"""Micro-batches of a round, by the device that computes them; the first is the leader's."""

_Verb = Literal["train", "evaluate", "log_probabilities"]


class DeviceLostError(AuctuneError):
    """The process of a device of the node has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAdapter:
    """Hold an adapter, whose values come with the first passes: `AdapterAdded`."""

    name: str
    rank: int
    alpha: float
    dropout: float
    use_rslora: bool
    shapes: Mapping[str, tuple[int, ...]]
    type: Literal["add_adapter"] = "add_adapter"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterAdded:
    """An adapter is held, unless memory ran out."""

    fits: bool
    type: Literal["adapter_added"] = "adapter_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAdapters:
    """Drop adapters."""

    names: Sequence[str]
    type: Literal["remove_adapters"] = "remove_adapters"


@dataclass(frozen=True, slots=True)
class RowHeader:
    """Fields of a `BatchRow`, with its number of tokens in place of them."""

    adapter: str
    key: int
    num_tokens: int
    weight: float
    beta: float
    reference: float
    rating: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPasses:
    """Take over values of adapters by broadcasts, and run micro-batches: `PassesDone`.

    Attributes:
        verb: method of `ForwardBackward`.
        adapters: names of those whose values are broadcast, in this order.
        counted: as `adapters` of `ForwardBackward.log_probabilities`.
        passes: rows of each micro-batch.
        arrays: ids and labels, int64 [tokens], of all rows one after the other.
    """

    verb: _Verb
    adapters: Sequence[str]
    counted: Sequence[str]
    passes: Sequence[Sequence[RowHeader]]
    arrays: Sequence[Any]
    type: Literal["run_passes"] = "run_passes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesDone:
    """Micro-batches were run.

    Attributes:
        failed: number of the one that did not fit into memory, after which none was run, or `None`.
        has_room: whether there is more memory now than there was for that one.
        arrays: of each one, float32: losses and hits by adapter, or log-probabilities by row.
    """

    failed: int | None = None
    has_room: bool = False
    arrays: Sequence[Any] = ()
    type: Literal["passes_done"] = "passes_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceGradients:
    """Add the gradients of adapters to the leader's, in this order."""

    adapters: Sequence[str]
    type: Literal["reduce_gradients"] = "reduce_gradients"


FollowerRequest = AddAdapter | RemoveAdapters | RunPasses | ReduceGradients
FollowerReply = AdapterAdded | PassesDone


class Followers(Protocol):
    """Processes of a node's further devices; a device is named by its number, from 1."""

    def __len__(self) -> int: ...

    def send(self, device: int, request: FollowerRequest) -> None:
        """Send a request; does not wait."""

    def receive(self, device: int) -> Any:
        """Return the next reply.

        Raises:
            DeviceLostError: if the process has ended.
        """

    def wait_lost(self) -> DeviceLostError | None:
        """Return why a process has ended, once one of them has; `None` if none does soon."""


def join_devices(store: str, device: torch.device, number: int, num_devices: int) -> None:
    """Join the process group of a node's devices; returns once all have joined.

    Args:
        store: path of the file through which they find each other.
        device: of this process, which is number `number`; the leader is 0.
        num_devices: of the node.
    """
    # They are all on this machine, which may have no network.
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    is_cuda = device.type == "cuda"
    distributed.init_process_group(
        "nccl" if is_cuda else "gloo",
        store=distributed.FileStore(store, num_devices),  # type: ignore[attr-defined]
        rank=number,
        world_size=num_devices,
        device_id=device if is_cuda else None,
    )


class DeviceGroup:
    """The devices of a node, as their leader sees them; one trainer at a time uses them.

    Args:
        followers: of the further devices, which have joined; `None`: there are none.
    """

    def __init__(self, followers: Followers | None = None) -> None:
        self._followers = followers
        self.num_devices = 1 + (0 if followers is None else len(followers))
        self._names: set[str] = set()
        # Whether a follower has made room since the last call of `release`.
        self._has_room = False

    def clear(self) -> None:
        """Drop all adapters of an earlier trainer."""
        self.remove(self._names)

    def add(self, adapter: AdapterWeights) -> None:
        """Have all followers hold a new adapter of the leader.

        Raises:
            MemoryError: if one of them has no room for it.
        """
        config = adapter.config
        request = AddAdapter(
            name=adapter.name,
            rank=config.r,
            alpha=float(config.lora_alpha),
            dropout=float(config.lora_dropout),
            use_rslora=config.use_rslora,
            shapes=adapter.shapes,
        )
        self._names.add(adapter.name)
        self._send_all(request)
        replies = [self._receive(device) for device in self._numbers]
        if not all(reply.fits for reply in replies):
            self.remove([adapter.name])
            raise MemoryError("a device of the node has no room for the adapter")

    def remove(self, names: Iterable[str]) -> None:
        """Have all followers drop adapters."""
        dropped = sorted(names)
        self._names.difference_update(dropped)
        self._send_all(RemoveAdapters(names=dropped))

    def train(self, step: ForwardBackward, parts: Parts) -> list[dict[str, Tensor]] | MicroBatch:
        """Add the gradients of micro-batches to those of the leader's adapters.

        Returns:
            Of each micro-batch, in order, what `ForwardBackward.train` returns; or one that did not
            fit into memory: then some gradients have been added, and others not.
        """
        found = self._run("train", step, parts)
        if isinstance(found, list) and any(parts[1:]):
            names = _adapters(parts)
            self._send_all(ReduceGradients(adapters=names))
            self._communicate(_reduce, [step.adapted.adapters[name].gradients for name in names])
        return found

    def evaluate(self, step: ForwardBackward, parts: Parts) -> list[dict[str, Tensor]] | MicroBatch:
        """Return of each micro-batch, in order, what `ForwardBackward.evaluate` returns.

        Or one that did not fit into memory.
        """
        return self._run("evaluate", step, parts)

    def log_probabilities(
        self, step: ForwardBackward, parts: Parts, adapters: Collection[str]
    ) -> list[Tensor] | MicroBatch:
        """Return of each micro-batch what `ForwardBackward.log_probabilities` returns.

        Or one that did not fit into memory.
        """
        return self._run("log_probabilities", step, parts, adapters)

    def release(self, step: ForwardBackward) -> bool:
        """Release what passes can do without, after memory ran out; return whether there was any.

        Followers have done so where theirs did.
        """
        has_room = step.body.release() or self._has_room
        self._has_room = False
        free_cache()
        return has_room

    def _run(
        self, verb: _Verb, step: ForwardBackward, parts: Parts, counted: Collection[str] = ()
    ) -> list[Any] | MicroBatch:
        own, *others = parts
        # Few rows are computed here alone.
        busy = self._numbers if any(others) else range(0)
        if busy:
            names = sorted(counted) if verb == "log_probabilities" else _adapters(parts)
            for device in busy:
                self._send(device, _request(verb, others[device - 1], names, sorted(counted)))
            values = [step.adapted.adapters[name].values for name in names]
            self._communicate(_broadcast, values)
        try:
            results, failed = _run_all(verb, step, own, counted)
        finally:
            # Whatever happens here, their next replies are those to later requests.
            replies = [self._receive(device) for device in busy]
        for done, batches in zip(replies, others, strict=False):
            if done.failed is not None:
                failed = batches[done.failed]
                self._has_room |= done.has_room
            ran = zip(batches, done.arrays, strict=False)
            results += [_read_result(verb, batch, array, step.device) for batch, array in ran]
        return results if failed is None else failed

    def _communicate(
        self, collective: Callable[[Sequence[Tensor]], None], tensors: Sequence[Tensor]
    ) -> None:
        try:
            collective(tensors)
        except RuntimeError:
            assert self._followers is not None
            lost = self._followers.wait_lost()
            if lost is None:
                raise
            raise lost from None

    @property
    def _numbers(self) -> range:
        return range(1, self.num_devices)

    def _send_all(self, request: FollowerRequest) -> None:
        for device in self._numbers:
            self._send(device, request)

    def _send(self, device: int, request: FollowerRequest) -> None:
        assert self._followers is not None
        self._followers.send(device, request)

    def _receive(self, device: int) -> Any:
        assert self._followers is not None
        return self._followers.receive(device)


class Follower:
    """A further device's side, whose process has joined the group.

    Args:
        step: runs micro-batches; the adapters of its model are set here.
        dtype: of the model's passes.
    """

    def __init__(self, step: ForwardBackward, dtype: torch.dtype) -> None:
        self._step, self._dtype = step, dtype

    def handle(self, request: FollowerRequest) -> FollowerReply | None:
        """Do what the leader requests; return the reply, if there is one."""
        adapters = self._step.adapted.adapters
        match request:
            case AddAdapter():
                return AdapterAdded(fits=self._add(request))
            case RemoveAdapters(names=names):
                for name in adapters.keys() & set(names):
                    adapters.remove(name)
            case RunPasses():
                return self._run(request)
            case ReduceGradients(adapters=names):
                _reduce([adapters[name].gradients for name in names])
        return None

    def _add(self, request: AddAdapter) -> bool:
        config = LoraConfig(
            r=request.rank,
            lora_alpha=request.alpha,
            lora_dropout=request.dropout,
            use_rslora=request.use_rslora,
        )
        step = self._step
        # PEFT need not find the modules again, which takes seconds: their names are known.
        adapter = run_or_out_of_memory(
            lambda name: new_weights(
                name, config, request.shapes, step.device, self._dtype, trains=True
            ),
            request.name,
        )
        if adapter is not None:
            step.adapted.adapters.add(adapter)
        return adapter is not None

    def _run(self, request: RunPasses) -> PassesDone:
        step, verb = self._step, request.verb
        weights = [step.adapted.adapters[name] for name in request.adapters]
        _broadcast([one.values for one in weights])
        if verb == "train":
            for one in weights:
                one.gradients.zero_()
        batches = _read_batches(request, step.is_packed)
        results, failed = _run_all(verb, step, batches, request.counted)
        arrays = [_flat(result).to("cpu", torch.float32).numpy() for result in results]
        if failed is not None:
            has_room = step.body.release()
            free_cache()
            return PassesDone(failed=len(results), has_room=has_room, arrays=arrays)
        return PassesDone(arrays=arrays)


def _run_all(
    verb: _Verb, step: ForwardBackward, batches: Sequence[MicroBatch], counted: Collection[str]
) -> tuple[list[Any], MicroBatch | None]:
    """Return the results of micro-batches, up to one, if any, that memory was too small for."""
    runs: dict[_Verb, Callable[[MicroBatch], Any]] = {
        "train": step.train,
        "evaluate": step.evaluate,
        "log_probabilities": lambda batch: step.log_probabilities(batch, counted),
    }
    results: list[Any] = []
    for batch in batches:
        result = run_or_out_of_memory(runs[verb], batch)
        if result is None:
            return results, batch
        results.append(result)
    return results, None


def _adapters(parts: Parts) -> list[str]:
    """Return the names of the adapters of micro-batches, each once."""
    rows = (row for part in parts for batch in part for row in batch.rows)
    return list(dict.fromkeys(row.adapter for row in rows))


def _broadcast(tensors: Sequence[Tensor]) -> None:
    """Give all devices the leader's values of tensors."""
    for work in [distributed.broadcast(one, src=0, async_op=True) for one in tensors]:
        work.wait()


def _reduce(tensors: Sequence[Tensor]) -> None:
    """Add all devices' values of tensors to the leader's; those of others are undefined then."""
    for work in [distributed.reduce(one, dst=0, async_op=True) for one in tensors]:
        work.wait()


def _request(
    verb: _Verb, batches: Sequence[MicroBatch], adapters: Sequence[str], counted: Sequence[str]
) -> RunPasses:
    passes = [
        [
            RowHeader(
                row.adapter,
                row.key,
                len(row),
                row.weight,
                row.beta,
                row.reference,
                row.rating,
            )
            for row in batch.rows
        ]
        for batch in batches
    ]
    rows = [row for batch in batches for row in batch.rows]
    none = [np.zeros(0, np.int64)]
    ids = np.concatenate([row.input_ids for row in rows] or none)
    labels = np.concatenate([row.labels for row in rows] or none)
    return RunPasses(
        verb=verb, adapters=adapters, counted=counted, passes=passes, arrays=(ids, labels)
    )


def _read_batches(request: RunPasses, is_packed: bool) -> list[MicroBatch]:
    """Return the micro-batches of a request."""
    ids, labels = request.arrays
    ends = np.cumsum([row.num_tokens for rows in request.passes for row in rows])
    tokens = iter(
        zip(np.split(ids, ends[:-1]), np.split(labels, ends[:-1]), strict=True) if len(ends) else ()
    )
    return [
        MicroBatch(
            tuple(
                BatchRow(
                    row.adapter,
                    row.key,
                    *next(tokens),
                    row.weight,
                    row.beta,
                    row.reference,
                    row.rating,
                )
                for row in rows
            ),
            is_packed,
        )
        for rows in request.passes
    ]


def _flat(result: dict[str, Tensor] | Tensor) -> Tensor:
    return result if isinstance(result, Tensor) else torch.stack([*result.values()]).flatten()


def _read_result(
    verb: _Verb, batch: MicroBatch, array: NDArray[Any], device: torch.device
) -> dict[str, Tensor] | Tensor:
    """Return a follower's result of a micro-batch, as the leader's own step would."""
    values = torch.from_numpy(array).to(device)
    if verb == "log_probabilities":
        return values
    names = dict.fromkeys(row.adapter for row in batch.rows)
    return dict(zip(names, values.view(-1, 2), strict=True))
