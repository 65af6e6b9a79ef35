"""The parent's side: an order out, pieces of text in."""

import os
import queue
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.domain.dataset import RowKind
from auctune.run.child import ChildProcess, Message
from auctune.run.child.messages import read_error
from auctune.run.child.process import device_in_child
from auctune.train.job import SampleParams

_WORKER = ("-m", "auctune.run.sampling.worker")


class SampleError(AuctuneError):
    """The process that draws text ended, or the adapter does not fit its base."""


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """What is to be drawn.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        prompt: text.
        adapter: folder in PEFT's format; none: the base alone.
        kind: of the rows that the adapter was trained on: a prompt is put as they were.
        params: how tokens are chosen.
        device, dtype: where and how it is computed.
        threads: of torch on a CPU.
    """

    base: str
    cache: Path
    prompt: str
    adapter: Path | None = None
    kind: RowKind = RowKind.TEXT
    params: SampleParams = field(default_factory=SampleParams)
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1


def sample(order: SampleOrder) -> Iterator[str]:
    """Pieces of text as they are drawn; whoever stops reading ends the process.

    Raises:
        InputError: for a base, an adapter or a prompt that cannot be used.
        SampleError: if the adapter is not one of the base, or the process ends.
    """
    inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    seen = replace(order, device=device_in_child(order.device, os.environ))
    process = ChildProcess(_WORKER, order_record(seen), inbox.put, device=order.device)
    try:
        while True:
            message = inbox.get()
            if message is None:
                raise SampleError(f"the process that draws text ended: {process.ending()}")
            if message["kind"] == "failed":
                raise read_error(message, SampleError)
            if message["kind"] == "text":
                yield message["text"]
            elif message["kind"] == "end":
                return
    finally:
        process.kill()


def order_record(order: SampleOrder) -> dict[str, Any]:
    """An order as plain values."""
    adapter = None if order.adapter is None else str(order.adapter)
    return asdict(order) | {"cache": str(order.cache), "adapter": adapter, "kind": str(order.kind)}


def read_order(record: dict[str, Any]) -> SampleOrder:
    """The order that `order_record` wrote."""
    adapter = None if record["adapter"] is None else Path(record["adapter"])
    return SampleOrder(
        **record
        | {
            "cache": Path(record["cache"]),
            "adapter": adapter,
            "kind": RowKind(record["kind"]),
            "params": SampleParams(**record["params"]),
        }
    )
