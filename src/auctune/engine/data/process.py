"""One data process and the requests that wait for it, queued by owner.

The owner is next whose requests have taken least time, so that however many an owner has waiting,
another owner's next request waits for one of them at most. Requests run one at a time, so
that the end of the process is the doing of the request that it was at: that request waits for its
owner's next turn and is tried once more with a new process; no other request is touched. A request
that exceeds its time is failed at once and its process killed. A request about a file that failed
like this is not tried again as long as the service runs: the same request, whatever its
`max_length`, gets the same error at once.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from auctune.domain import AuctuneError, InputError
from auctune.domain.fair_share import Backlog, FairShare
from auctune.engine.messages.base import Failed, Ready
from auctune.engine.messages.data import (
    DATA_MESSAGES,
    ArchiveFolder,
    DataReply,
    DataRequest,
    DataResponse,
    Prepare,
)
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.runtime.mailbox import Mailbox

T = TypeVar("T")

_MAX_TRIES = 2
_MAX_FAILED = 10_000
_POLL_SECONDS = 0.2
# Who waits for an examination waits for hundredths of a second at least, all others for less.
_NICENESS = 5
_STOP_SECONDS = 2.0
# On a machine where much else is started, imports take minutes.
_START_SECONDS = 600.0


class DataError(AuctuneError):
    """The data process failed at a request, through no known fault of the data."""


class DataFuture(Future[T]):
    """The answer to a request.

    Attributes:
        seconds: that the request has taken of the process, once it is answered; of one with several
            futures, the part of this one.
    """

    seconds = 0.0


@dataclass(slots=True, eq=False)
class Request:
    """A request to a data process.

    Attributes:
        message: what is to be done.
        owner: the user whose turn it takes.
        seconds: that it may run, without the start of its process.
        weight: of the owner, as of `FairShare`.
        key: equal for requests with equal answers, which run once; `None`: it runs by itself.
        failure_key: equal for requests of which none is tried once one has ended the process or
            taken too long; `None`: none.
        futures: of all who wait for the answer.
        num_tries: that have begun.
        began: when the last one did, by the monotonic clock, or when its process had started.
        used_seconds: of the process, in all tries.
    """

    message: DataRequest
    owner: str
    seconds: float
    weight: float
    key: DataRequest | None
    failure_key: DataRequest | None = None
    futures: list[DataFuture[Any]] = field(default_factory=list)
    num_tries: int = 0
    began: float = 0.0
    used_seconds: float = 0.0

    def start(self) -> bool:
        """Mark its futures as running; return whether anybody still waits for one of them."""
        if not self.num_tries:
            self.futures = [one for one in self.futures if one.set_running_or_notify_cancel()]
        return bool(self.futures)

    def join(self, future: DataFuture[Any]) -> None:
        """Have a future answered with this request's answer."""
        if not self.num_tries or future.set_running_or_notify_cancel():
            self.futures.append(future)

    def answer(self, value: object) -> None:
        """Answer with a value."""
        for future in self.futures:
            future.seconds = self.used_seconds / len(self.futures)
            future.set_result(value)

    def fail(self, error: AuctuneError) -> None:
        """Answer with an error."""
        for future in self.futures:
            future.seconds = self.used_seconds / len(self.futures)
            future.set_exception(error)


class RequestQueue:
    """Requests by owner; that of the owner is next whose requests have taken least time."""

    def __init__(self) -> None:
        self._share = FairShare()
        self._waiting: Backlog[Request] = Backlog(self._share)

    def add(self, request: Request) -> None:
        """Append a request to those of its owner."""
        self._share.enter(request.owner, request.weight)
        self._waiting.add(request.owner, request)

    def requeue(self, request: Request) -> None:
        """Put a request back that was taken: it is its owner's next one."""
        self._waiting.add(request.owner, request, is_first=True)

    def take(self) -> Request | None:
        """Remove and return the next request; `end` or `requeue` must follow."""
        if not self._waiting:
            return None
        owner, request = self._waiting.take()
        self._share.begin(owner)
        return request

    def charge(self, request: Request, seconds: float) -> None:
        """Count the seconds that a request has taken which was taken from here."""
        request.used_seconds += seconds
        self._share.charge(request.owner, seconds)

    def end(self, request: Request) -> None:
        """Count a request no longer that was taken."""
        self._share.leave(request.owner)

    def drain(self) -> list[Request]:
        """Remove and return all requests."""
        requests = list(self._waiting)
        self._waiting = Backlog(self._share)
        return requests


class DataProcess:
    """A data process, started again whenever it is needed.

    Args:
        name: of its thread.
        module: of the worker.
        argument: of the worker.
        environment: what differs from this process's own.
        log: file for what the process writes on standard error; `None`: not kept.
        lazy: whether it starts with its first request, and not at once.
    """

    def __init__(
        self,
        name: str,
        module: str,
        argument: object,
        environment: Mapping[str, str],
        log: Path | None,
        lazy: bool,
    ) -> None:
        self._module = module
        self._argument = argument
        self._environment = environment
        self._log = log
        self._lazy = lazy
        self._mailbox = Mailbox()
        self._queue = RequestQueue()
        # Requests that wait or run, by key.
        self._shared: dict[DataRequest, Request] = {}
        # Errors of those that must not run again, by failure key.
        self._failed: OrderedDict[DataRequest, AuctuneError] = OrderedDict()
        self._current: Request | None = None
        self._process: WorkerProcess | None = None
        self._started = False
        self._number = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Process id, `None` while there is no process."""
        process = self._process
        return None if process is None else process.pid

    def submit(self, request: Request, future: DataFuture[Any]) -> None:
        """Queue a request whose answer `future` gets; does not wait."""
        self._mailbox.post(partial(self._add, request, future))

    def close(self) -> None:
        """End the process; requests that are not done fail."""
        self._mailbox.close()
        self._thread.join()

    def _add(self, request: Request, future: DataFuture[Any]) -> None:
        if (error := self._failure_of(request)) is not None:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        key = request.key
        if key is not None:
            if (same := self._shared.get(key)) is not None:
                same.join(future)
                return
            self._shared[key] = request
        request.futures.append(future)
        self._queue.add(request)

    def _run(self) -> None:
        if not self._lazy:
            self._start()
        while not self._mailbox.is_closed:
            self._poll()
            # An answer that has come is not late.
            self._mailbox.run_pending(_POLL_SECONDS)
        if self._process is not None:
            self._process.stop(0.0 if self._current is not None else _STOP_SECONDS)
            self._process = None
        # Requests that came last.
        self._mailbox.run_pending()
        closed = DataError("the data process was closed")
        if self._current is not None:
            self._current.fail(closed)
        for request in self._queue.drain():
            if request.start():
                request.fail(closed)

    def _start(self) -> None:
        self._number += 1
        self._started = False
        on_message = partial(self._post_message, self._number)
        try:
            self._process = WorkerProcess(
                self._module,
                self._argument,
                on_message,
                DATA_MESSAGES,
                log=self._log,
                environment=self._environment,
                niceness=_NICENESS,
            )
        except OSError as error:
            self._end(f"cannot be started ({error.strerror})")

    def _post_message(self, number: int, message: DataReply | None) -> None:
        self._mailbox.post(partial(self._on_message, number, message))

    def _poll(self) -> None:
        """Start the next request, or end one that exceeds its time."""
        request = self._current
        if request is None:
            if (following := self._queue.take()) is not None:
                self._begin(following)
        elif not self._started:
            if time.monotonic() > request.began + _START_SECONDS:
                self._end(f"did not start within {_START_SECONDS:g} s")
        elif time.monotonic() > request.began + request.seconds:
            request.num_tries = _MAX_TRIES
            self._end(_late(request))

    def _begin(self, request: Request) -> None:
        if not request.start():
            self._forget(request)
            return
        # Another request may have shown meanwhile what becomes of it.
        if (error := self._failure_of(request)) is not None:
            self._forget(request)
            request.fail(error)
            return
        request.num_tries += 1
        request.began = time.monotonic()
        self._current = request
        if self._process is None:
            self._start()
        if self._process is not None:
            self._process.send(request.message)

    def _on_message(self, number: int, message: DataReply | None) -> None:
        if number != self._number or self._process is None:
            return
        match message:
            case None:
                self._end(self._process.exit_reason())
            case Ready():
                # The start of the process is no time of the request.
                self._started = True
                if self._current is not None:
                    self._current.began = time.monotonic()
            case Failed():
                self._forget(request := self._take_current())
                request.fail(message.error.to_error(DataError))
            case _ if isinstance(message, DataResponse):
                self._forget(request := self._take_current())
                request.answer(message.value)

    def _take_current(self) -> Request:
        """Return the current request, which the process is not at any more, and count its time."""
        request, self._current = self._current, None
        assert request is not None
        if self._started:
            self._queue.charge(request, time.monotonic() - request.began)
        return request

    def _end(self, how: str | AuctuneError) -> None:
        """Let go of the process; requeue the request that it was at, or fail it.

        Args:
            how: the process ended, or the error with which the request fails.
        """
        if self._process is not None:
            self._process.kill()
            self._process = None
        if self._current is None:
            return
        request = self._take_current()
        if request.num_tries < _MAX_TRIES:
            self._queue.requeue(request)
            return
        self._forget(request)
        error = _failure(request.message, how) if isinstance(how, str) else how
        if request.failure_key is not None:
            self._failed[request.failure_key] = error
            if len(self._failed) > _MAX_FAILED:
                self._failed.popitem(last=False)
        request.fail(error)

    def _failure_of(self, request: Request) -> AuctuneError | None:
        """Return the error of an earlier request that shows that this one fails too."""
        return None if request.failure_key is None else self._failed.get(request.failure_key)

    def _forget(self, request: Request) -> None:
        self._queue.end(request)
        if request.key is not None:
            self._shared.pop(request.key, None)


def _failure(message: DataRequest, how: str) -> AuctuneError:
    """Return the error of a request that ended its process."""
    if isinstance(message, Prepare | ArchiveFolder):
        return DataError(f"{message.type}: the data process {how}")
    found = f"could not be examined: the data process {how}"
    return InputError(message.place, found, "another file, with less or simpler data")


def _late(request: Request) -> AuctuneError:
    """Return the error of a request that took too long."""
    message, seconds = request.message, request.seconds
    if isinstance(message, Prepare | ArchiveFolder):
        return _failure(message, f"took longer than {seconds:g} s")
    limit = f"{seconds:g} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    found = f"takes more than {limit} to examine"
    return InputError(message.place, found, "less data in one file: split it")
