"""Trying out an adapter: text from a worker process that lives as long as the answer."""

import os
import queue
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.domain.dataset import RowKind
from auctune.run.runtime.channel import Alive, Failed, read_error
from auctune.run.runtime.local import WorkerProcess, device_in_child
from auctune.train.job import SampleParams

_WORKER = "auctune.run.workers.sampling"


class SampleError(AuctuneError):
    """The worker that draws text ended, or the adapter does not fit its base."""


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """A text to draw.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        prompt: text.
        adapter: folder in PEFT's format; None: the base alone.
        kind: of the rows that the adapter was trained on, which determines the prompt's format.
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


ORDERS = TypeAdapter(SampleOrder)


class SampledText(TypedDict):
    """A piece of the text."""

    kind: Literal["text"]
    text: str


class TextEnd(TypedDict):
    """The text is complete."""

    kind: Literal["end"]


SampleMessage = Alive | Failed | SampledText | TextEnd


def sample(order: SampleOrder) -> Iterator[str]:
    """Yield pieces of text as they are drawn; closing the iterator ends the worker.

    Raises:
        InputError: for a base, an adapter or a prompt that cannot be used.
        SampleError: if the adapter is not one of the base, or the worker ends.
    """
    inbox: queue.SimpleQueue[SampleMessage | None] = queue.SimpleQueue()
    seen = replace(order, device=device_in_child(order.device, os.environ))
    argument = ORDERS.dump_python(seen, mode="json")
    worker = WorkerProcess(_WORKER, argument, inbox.put, device=order.device, fork=True)
    try:
        while True:
            message = inbox.get()
            if message is None:
                raise SampleError(f"the process that draws text ended: {worker.exit_reason()}")
            if message["kind"] == "failed":
                raise read_error(message, SampleError)
            if message["kind"] == "text":
                yield message["text"]
            elif message["kind"] == "end":
                return
    finally:
        worker.kill()
