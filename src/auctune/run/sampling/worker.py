"""The process that draws text: says it piece by piece, then ends.

It says text {text} for each piece, then end {}, or failed {place, found, expected}.
"""

import json
import sys

from auctune.domain import AuctuneError
from auctune.run.child.messages import error_record
from auctune.run.child.parent import Parent
from auctune.run.sampling.sampler import read_order


def main() -> None:
    """Draw one text; the order is the only argument, as JSON."""
    parent = Parent()
    order = read_order(json.loads(sys.argv[1]))

    import torch

    from auctune.train.base import load_base
    from auctune.train.sampling import sample_text

    torch.set_num_threads(order.threads)
    try:
        base = load_base(order.base, cache=order.cache, device=order.device, dtype=order.dtype)
        for text in sample_text(base, order.adapter, order.kind, order.prompt, order.params):
            parent.say("text", text=text)
    except AuctuneError as error:
        parent.say("failed", **error_record(error))
    else:
        parent.say("end")
    parent.leave()


if __name__ == "__main__":
    main()
