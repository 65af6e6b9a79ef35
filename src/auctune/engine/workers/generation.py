"""Generation worker: answers and scores on one base, with any of its adapters.

Its messages are those of `auctune.engine.messages.generation`; `auctune.engine.workers.vllm` has
the same. Prompts are read on a thread of their own, and the rows of each request for a score on
another: a long one takes a second to tokenize, in which others' answers go on.
"""

import os
import queue
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from auctune.domain import AuctuneError
from auctune.domain.generation import ScoreRequest
from auctune.engine.generation import SETTINGS
from auctune.engine.messages.base import ErrorRecord, Failed, Ready, Stop
from auctune.engine.messages.generation import (
    GENERATOR_MESSAGES,
    Cancel,
    Generate,
    Generated,
    GeneratorReply,
    GeneratorRequest,
    MeasureSizes,
    SizesMeasured,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.training_lock import TrainingLock

if TYPE_CHECKING:
    from auctune.train.generation.engine import Engine
    from auctune.train.generation.reading import ReadRequest, RequestReader

MESSAGES = GENERATOR_MESSAGES
Parent = ParentChannel[GeneratorReply, GeneratorRequest]
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
        parent.send(Failed(error=ErrorRecord.of(error)))
        return
    parent.send(Ready())

    training_lock = TrainingLock(settings.cache)
    is_limited = settings.device == "cpu" and settings.sold_share < 1
    accepted: queue.SimpleQueue[Accepted] = queue.SimpleQueue()
    RequestThread(parent, engine.reader, accepted.put).start()
    while not parent.stop_requested.is_set():
        while engine.is_idle or not accepted.empty():
            one = accepted.get()
            if one is None:
                return
            _accept(parent, engine, *one)
        started = time.monotonic()
        for id_, piece in engine.step():
            if isinstance(piece, AuctuneError):
                refuse(parent, id_, piece)
            else:
                parent.send(Generated(request=id_, piece=piece))
        if is_limited and training_lock.is_held():
            # Niceness leaves sold slots the cores, but not the memory's bandwidth.
            worked = time.monotonic() - started
            parent.stop_requested.wait(worked * (1 / settings.sold_share - 1))


class RequestThread(threading.Thread):
    """Reads requests, in the order in which they come, apart from rows; answers `MeasureSizes`.

    Args:
        parent: of the worker.
        reader: of requests to its base.
        accept: called with each request that was read, on any thread.
    """

    def __init__(
        self, parent: Parent, reader: "RequestReader", accept: Callable[[Accepted], None]
    ) -> None:
        super().__init__(daemon=True)
        self._parent, self._reader, self._accept = parent, reader, accept
        # Requests whose rows are being read, and whether they are cancelled.
        self._rows: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        while not isinstance(message := self._parent.inbox.get(), Stop):
            id_ = message.id
            if isinstance(message, Cancel):
                with self._lock:
                    if (cancelled := self._rows.get(id_)) is not None:
                        cancelled.set()
                    self._accept((id_, None))
                continue
            cancelled = threading.Event()
            requests = [message.request] if isinstance(message, Generate) else message.requests
            if any(isinstance(one, ScoreRequest) for one in requests):
                self._rows[id_] = cancelled
                arguments = (message, cancelled)
                threading.Thread(target=self._read, args=arguments, daemon=True).start()
            else:
                self._read(message, cancelled)
        self._accept(None)

    def _read(self, message: Generate | MeasureSizes, cancelled: threading.Event) -> None:
        id_ = message.id
        try:
            if isinstance(message, MeasureSizes):
                sizes = [self._reader.measure(one, cancelled.is_set) for one in message.requests]
                self._parent.send(SizesMeasured(request=id_, sizes=tuple(sizes)))
                return
            read = self._reader.read(message.request, cancelled.is_set)
            with self._lock:
                if read is not None and not cancelled.is_set():
                    self._accept((id_, read))
        except AuctuneError as error:
            refuse(self._parent, id_, error)
        except Exception as error:
            # Chat templates are programs: what one raises must not end others' answers.
            traceback.print_exc()
            found = f"the request could not be read ({type(error).__name__})"
            refuse(self._parent, id_, AuctuneError(found))
        finally:
            with self._lock:
                self._rows.pop(id_, None)


def _accept(parent: Parent, engine: "Engine", id_: str, read: "ReadRequest | None") -> None:
    if read is None:
        engine.cancel(id_)
        return
    try:
        engine.accept(id_, read)
    except AuctuneError as error:
        refuse(parent, id_, error)


def refuse(parent: Parent, id_: str, error: AuctuneError) -> None:
    """Send the error that ends a request."""
    parent.send(Failed(error=ErrorRecord.of(error), request=id_))
