"""Worker that draws text from a model, then exits."""

from typing import Any

from auctune.domain import AuctuneError
from auctune.run.runtime.channel import ParentChannel, error_record
from auctune.run.sampling import ORDERS, SampleMessage


def main(parent: ParentChannel[SampleMessage], argument: Any) -> None:
    """Draw one text; the argument is a `SampleOrder`."""
    import torch

    from auctune.train.base import load_base
    from auctune.train.sampling import sample_text

    order = ORDERS.validate_python(argument)
    torch.set_num_threads(order.threads)
    try:
        base = load_base(order.base, cache=order.cache, device=order.device, dtype=order.dtype)
        for text in sample_text(base, order.adapter, order.kind, order.prompt, order.params):
            parent.send({"kind": "text", "text": text})
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
    else:
        parent.send({"kind": "end"})
