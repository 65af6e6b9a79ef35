"""Generation worker: answers and scores on one base, with any of its adapters.

| request | replies |
| --- | --- |
| generate {id, request} | `Generated` for each piece, or one `Refused` |
| cancel {id} | none: no further piece comes |

It sends `Ready` once the base is loaded. Requests are read on a thread of their own: a long prompt
takes a second to tokenize, in which others' answers go on.
"""

import os
import queue
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from auctune.domain import AuctuneError
from auctune.run.generation import PIECES, REQUESTS, SETTINGS, GenerationMessage
from auctune.run.runtime.channel import ParentChannel, error_record
from auctune.run.runtime.training_lock import TrainingLock

if TYPE_CHECKING:
    from auctune.train.generation.engine import Engine, ReadRequest

Parent = ParentChannel[GenerationMessage]
Accepted = tuple[str, "ReadRequest | None"] | None
"""Id of a request, and the request as it was read, or None to cancel it; None to stop."""


def main(parent: Parent, argument: Any) -> None:
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
            checks_base=settings.checks_base,
        )
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
        return
    parent.send({"kind": "ready"})

    training_lock = TrainingLock(settings.cache)
    is_limited = settings.device == "cpu" and settings.sold_share < 1
    accepted: queue.SimpleQueue[Accepted] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(parent, engine, accepted), daemon=True).start()
    while not parent.stop_requested.is_set():
        while engine.is_idle or not accepted.empty():
            one = accepted.get()
            if one is None:
                return
            _accept(parent, engine, *one)
        started = time.monotonic()
        for id_, piece in engine.step():
            if isinstance(piece, AuctuneError):
                _refuse(parent, id_, piece)
            else:
                content = PIECES.dump_python(piece, mode="json")
                parent.send({"kind": "generated", "id": id_, "piece": content})
        if is_limited and training_lock.is_held():
            # Niceness leaves sold slots the cores, but not the memory's bandwidth.
            worked = time.monotonic() - started
            parent.stop_requested.wait(worked * (1 / settings.sold_share - 1))


def _read(parent: Parent, engine: "Engine", accepted: "queue.SimpleQueue[Accepted]") -> None:
    """Read requests in the order in which they come."""
    while (message := parent.inbox.get())["do"] != "stop":
        id_, read = message["id"], None
        if message["do"] == "generate":
            try:
                read = engine.read(REQUESTS.validate_python(message["request"]))
            except AuctuneError as error:
                _refuse(parent, id_, error)
                continue
            except Exception as error:
                # Chat templates are programs: what one raises must not end others' answers.
                traceback.print_exc()
                found = f"the request could not be read ({type(error).__name__})"
                _refuse(parent, id_, AuctuneError(found))
                continue
        accepted.put((id_, read))
    accepted.put(None)


def _accept(parent: Parent, engine: "Engine", id_: str, read: "ReadRequest | None") -> None:
    if read is None:
        engine.cancel(id_)
        return
    try:
        engine.accept(id_, read)
    except AuctuneError as error:
        _refuse(parent, id_, error)


def _refuse(parent: Parent, id_: str, error: AuctuneError) -> None:
    parent.send({"kind": "refused", "id": id_, **error_record(error)})
