"""Worker that draws a text from a model or evaluates an adapter, then exits."""

from typing import Any

from auctune.domain import AuctuneError
from auctune.domain.dataset import read_dataset
from auctune.engine.inference import (
    EVALUATIONS,
    ORDERS,
    EvaluationOrder,
    InferenceMessage,
    SampleOrder,
)
from auctune.engine.runtime.channel import ParentChannel, error_record


def main(parent: ParentChannel[InferenceMessage], argument: Any) -> None:
    """Carry out one order; the argument is a `SampleOrder` or an `EvaluationOrder`."""
    import torch

    order = ORDERS.validate_python(argument)
    if order.threads is not None:
        torch.set_num_threads(order.threads)
    try:
        if isinstance(order, SampleOrder):
            _sample(parent, order)
        else:
            _evaluate(parent, order)
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})


def _sample(parent: ParentChannel[InferenceMessage], order: SampleOrder) -> None:
    from auctune.train.base import load_base
    from auctune.train.sampling import sample_text

    base = load_base(order.base, cache=order.cache, device=order.device, dtype=order.dtype)
    for text in sample_text(base, order.adapter, order.kind, order.prompt, order.params):
        parent.send({"kind": "text", "text": text})
    parent.send({"kind": "end"})


def _evaluate(parent: ParentChannel[InferenceMessage], order: EvaluationOrder) -> None:
    from auctune.train.base import load_base
    from auctune.train.evaluation import evaluate

    def report(what: str, share: float) -> None:
        parent.send({"kind": "preparing", "what": what, "share": share})

    dataset = read_dataset(order.data, max_rows=order.max_rows)
    report(f"loading the base {order.base}", 0.0)
    base = load_base(order.base, cache=order.cache, device=order.device, dtype=order.dtype)
    found = evaluate(
        base,
        order.adapter,
        dataset,
        order.max_length,
        num_answers=order.num_answers,
        max_tokens=order.max_tokens,
        report=report,
    )
    parent.send({"kind": "evaluated", "evaluation": EVALUATIONS.dump_python(found, mode="json")})
