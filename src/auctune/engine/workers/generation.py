"""Generation worker: answers and scores on one base, with any of its adapters.

Its messages are those of `auctune.engine.messages.generation`; `auctune.engine.workers.vllm` has
the same. Prompts are read on a thread of their own, one after the other, and the rows of each
request for a score on another: a long one takes a second to tokenize, in which others' answers go
on.
"""

import os
import queue
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from auctune.domain import AuctuneError
from auctune.domain.fair_share import Backlog, FairShare
from auctune.domain.generation import ScoreRequest
from auctune.engine.generation import SETTINGS
from auctune.engine.messages.base import ErrorRecord, Failed, Ready, Stop
from auctune.engine.messages.generation import (
    GENERATOR_MESSAGES,
    Cancel,
    Generate,
    Generated,
    GeneratedPiece,
    GeneratorReply,
    GeneratorRequest,
    MeasureSize,
    SizeMeasured,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.training_lock import TrainingLock

if TYPE_CHECKING:
    from auctune.train.generation.engine import Engine
    from auctune.train.generation.reading import ReadRequest, RequestReader

MESSAGES = GENERATOR_MESSAGES
Parent = ParentChannel[GeneratorReply, GeneratorRequest]
Accepted = tuple[str, str, float, "ReadRequest | None"] | None
"""Id of a request, its user and the user's weight, and the request as it was read, or None to
cancel it; None to stop."""


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
    seconds: dict[str, float] = {}
    while not parent.stop_requested.is_set():
        while engine.is_idle or not accepted.empty():
            one = accepted.get()
            if one is None:
                return
            _accept(engine, seconds, *one)
        started = time.monotonic()
        _step(parent, engine, seconds)
        if is_limited and training_lock.is_held():
            # Niceness leaves sold slots the cores, but not the memory's bandwidth.
            worked = time.monotonic() - started
            parent.stop_requested.wait(worked * (1 / settings.sold_share - 1))


class RequestThread(threading.Thread):
    """Reads requests, apart from rows; answers `MeasureSize`.

    The next one is of the user for whom it has worked least; a user's own are read in the order in
    which they come.

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
        self._share = FairShare()
        self._waiting: Backlog[Generate | MeasureSize] = Backlog(self._share)
        # Requests whose rows are being read, and whether they are cancelled.
        self._rows: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        while True:
            try:
                message = self._parent.inbox.get(block=not self._waiting)
            except queue.Empty:
                self._read_next()
                continue
            if isinstance(message, Stop):
                self._accept(None)
                return
            self._receive(message)

    def _receive(self, message: Generate | MeasureSize | Cancel) -> None:
        """Cancel a request, begin to read rows, or have a request wait for its user's turn."""
        id_ = message.id
        if isinstance(message, Cancel):
            self._cancel(id_)
            return
        if isinstance(message.request, ScoreRequest):
            cancelled = self._rows[id_] = threading.Event()
            arguments = (message, cancelled)
            threading.Thread(target=self._read, args=arguments, daemon=True).start()
        else:
            self._share.enter(message.user, message.weight)
            self._waiting.add(message.user, message)

    def _cancel(self, id_: str) -> None:
        for message in list(self._waiting):
            if message.id == id_:
                self._waiting.remove(message.user, message)
                self._share.leave(message.user)
                return
        with self._lock:
            if (cancelled := self._rows.get(id_)) is not None:
                cancelled.set()
            self._accept((id_, "", 1.0, None))

    def _read_next(self) -> None:
        user, message = self._waiting.take()
        self._share.begin(user)
        begun = time.thread_time()
        self._read(message, threading.Event())
        self._share.charge(user, time.thread_time() - begun)
        self._share.leave(user)

    def _read(self, message: Generate | MeasureSize, cancelled: threading.Event) -> None:
        id_ = message.id
        try:
            if isinstance(message, MeasureSize):
                size = self._reader.measure(message.request, cancelled.is_set)
                self._parent.send(SizeMeasured(request=id_, size=size))
                return
            read = self._reader.read(message.request, cancelled.is_set)
            with self._lock:
                if read is not None and not cancelled.is_set():
                    self._accept((id_, message.user, message.weight, read))
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


def _accept(
    engine: "Engine",
    seconds: dict[str, float],
    id_: str,
    user: str,
    weight: float,
    read: "ReadRequest | None",
) -> None:
    if read is None:
        engine.cancel(id_)
        seconds.pop(id_, None)
        return
    engine.accept(id_, read, user, weight)


def _step(parent: Parent, engine: "Engine", seconds: dict[str, float]) -> None:
    """Take a step, and send what comes of it; `seconds` are those of no piece yet, by request."""
    used = time.process_time() - engine.thread_seconds
    replies = engine.step()
    used = time.process_time() - engine.thread_seconds - used
    for id_, read_seconds in engine.read_seconds.items():
        seconds[id_] = seconds.get(id_, 0.0) + read_seconds
    total = sum(engine.costs.values())
    for id_, cost in engine.costs.items():
        seconds[id_] = seconds.get(id_, 0.0) + used * cost / total
    pieces: list[GeneratedPiece] = []
    errors: list[tuple[str, AuctuneError]] = []
    for id_, piece in replies:
        of_piece = seconds.pop(id_, 0.0)
        if isinstance(piece, AuctuneError):
            errors.append((id_, piece))
        else:
            pieces.append(GeneratedPiece(request=id_, piece=piece, seconds=of_piece))
    if pieces:
        # One message: a thread of the parent wakes up for each.
        parent.send(Generated(pieces=tuple(pieces)))
    for id_, error in errors:
        refuse(parent, id_, error)


def refuse(parent: Parent, id_: str, error: AuctuneError) -> None:
    """Send the error that ends a request."""
    parent.send(Failed(error=ErrorRecord.of(error), request=id_))
