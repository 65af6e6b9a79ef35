"""Generation worker: answers and scores on one base, with any of its adapters.

| request | replies |
| --- | --- |
| generate {id, request} | `Generated` for each piece, or one `Refused` |
| cancel {id} | none: no further piece comes |

It sends `Ready` once the base is loaded.
"""

import os
from typing import Any

from auctune.domain import AuctuneError
from auctune.run.generation import PIECES, REQUESTS, SETTINGS, GenerationMessage
from auctune.run.runtime.channel import Message, ParentChannel, error_record


def main(parent: ParentChannel[GenerationMessage], argument: Any) -> None:
    """Serve requests; the argument is a `GeneratorSettings`."""
    import torch

    settings = SETTINGS.validate_python(argument)
    os.nice(settings.niceness)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)

    from auctune.train.base import load_base
    from auctune.train.generation.engine import Engine

    try:
        base = load_base(
            settings.base, cache=settings.cache, device=settings.device, dtype=settings.dtype
        )
        engine = Engine(
            base,
            max_batch=settings.max_batch,
            max_cache_bytes=settings.max_cache_bytes,
            max_adapter_bytes=settings.max_adapter_bytes,
        )
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
        return
    parent.send({"kind": "ready"})

    def accept(message: Message) -> None:
        id_ = message["id"]
        if message["do"] == "cancel":
            engine.cancel(id_)
            return
        try:
            engine.add(id_, REQUESTS.validate_python(message["request"]))
        except AuctuneError as error:
            parent.send({"kind": "refused", "id": id_, **error_record(error)})

    while not parent.stop_requested.is_set():
        while engine.is_idle or not parent.inbox.empty():
            message = parent.inbox.get()
            if message["do"] == "stop":
                return
            accept(message)
        for id_, piece in engine.step():
            if isinstance(piece, AuctuneError):
                parent.send({"kind": "refused", "id": id_, **error_record(piece)})
            else:
                content = PIECES.dump_python(piece, mode="json")
                parent.send({"kind": "generated", "id": id_, "piece": content})
