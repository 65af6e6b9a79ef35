"""Text from an adapter, and its evaluation: each by a worker process of its own."""

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.domain.dataset import DEFAULT_MAX_LENGTH, RowKind
from auctune.domain.evaluation import Evaluation
from auctune.engine.runtime.channel import Alive, Failed, Preparing, read_error
from auctune.engine.runtime.local import WorkerProcess
from auctune.train.job import SampleParams

_WORKER = "auctune.engine.workers.inference"


class InferenceError(AuctuneError):
    """The worker ended, or the adapter does not fit its base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlace:
    """A base model, and where and how it is computed.

    Attributes:
        base: its name.
        cache: folder of bases that are built here.
        device, dtype: of the computation.
        threads: of torch on a CPU; `None`: as many as torch chooses.
    """

    base: str
    cache: Path
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrder(ModelPlace):
    """A text to draw.

    Attributes:
        prompt: text.
        adapter: folder in PEFT's format; `None`: the base alone.
        kind: of the rows that the adapter was trained on, which determines the prompt's format.
        params: how tokens are chosen.
    """

    task: Literal["sample"] = "sample"
    prompt: str
    adapter: Path | None = None
    kind: RowKind = RowKind.TEXT
    params: SampleParams = field(default_factory=SampleParams)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOrder(ModelPlace):
    """An adapter to be evaluated beside its base.

    Attributes:
        adapter: folder in PEFT's format.
        data: JSONL file of rows.
        max_rows: first rows that count; `None`: all.
        max_length: tokens of a row at most.
        num_answers: rows that are answered.
        max_tokens: of an answer.
    """

    task: Literal["evaluate"] = "evaluate"
    adapter: Path
    data: Path
    max_rows: int | None = None
    max_length: int = DEFAULT_MAX_LENGTH
    num_answers: int = 3
    max_tokens: int = 64


ORDERS: TypeAdapter[SampleOrder | EvaluationOrder] = TypeAdapter(SampleOrder | EvaluationOrder)
EVALUATIONS = TypeAdapter(Evaluation)


class SampledText(TypedDict):
    """A piece of the text."""

    kind: Literal["text"]
    text: str


class TextEnd(TypedDict):
    """The text is complete."""

    kind: Literal["end"]


class Evaluated(TypedDict):
    """An evaluation is complete."""

    kind: Literal["evaluated"]
    evaluation: dict[str, Any]


InferenceMessage = Alive | Failed | Preparing | SampledText | TextEnd | Evaluated


def sample(order: SampleOrder) -> Iterator[str]:
    """Yield pieces of text as they are drawn; closing the iterator ends the worker.

    Raises:
        InputError: for a base, an adapter or a prompt that cannot be used.
        InferenceError: if the adapter is not one of the base, or the worker ends.
    """
    for message in _messages(order):
        if message["kind"] == "text":
            yield message["text"]
        elif message["kind"] == "end":
            return


def evaluate(order: EvaluationOrder, report: Callable[[str, float], None]) -> Evaluation:
    """Evaluate an adapter.

    Args:
        order: what to evaluate.
        report: called with what is being done, and the share done of it.

    Raises:
        InputError: for a base, an adapter or data that cannot be used.
        InferenceError: if the adapter is not one of the base, or the worker ends.
    """
    for message in _messages(order):
        if message["kind"] == "preparing":
            report(message["what"], message["share"])
        elif message["kind"] == "evaluated":
            return EVALUATIONS.validate_python(message["evaluation"])
    raise AssertionError("messages end with an error")


def _messages(order: SampleOrder | EvaluationOrder) -> Iterator[InferenceMessage]:
    inbox: queue.SimpleQueue[InferenceMessage | None] = queue.SimpleQueue()
    argument = ORDERS.dump_python(order, mode="json")
    worker = WorkerProcess(_WORKER, argument, inbox.put, device=order.device, fork=True)
    try:
        while True:
            message = inbox.get()
            if message is None:
                raise InferenceError(f"the process of the model ended: {worker.exit_reason()}")
            if message["kind"] == "failed":
                raise read_error(message, InferenceError)
            yield message
    finally:
        worker.kill()
