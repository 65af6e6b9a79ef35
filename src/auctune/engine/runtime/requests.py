"""A worker that answers requests in their order: each request is a future of its answer.

Such a worker sends a `Ready`, or `Failed` if it cannot start. It handles one request after the
other (`serve`), and sends one `Response` for each, which is `Failed` if it could not do this one.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from auctune.domain import AuctuneError
from auctune.engine.messages.base import Failed, Missing, Ready, Response, Stop
from auctune.engine.runtime.channel import OnMessage, ParentChannel
from auctune.engine.runtime.worker import WorkerHandle

T = TypeVar("T")

STUCK_SECONDS = 600.0
"""Seconds for one answer after which a worker is stuck."""

_POLL_SECONDS = 1.0


class WorkerEndedError(AuctuneError):
    """The worker ended before it answered."""


class RequestWorker:
    """Handle of a worker that answers requests in their order. Thread-safe.

    Args:
        start: starts the worker, and is given where its messages go.
        read_failure: returns the error of a `Failed`.
        now: monotonic clock.

    Attributes:
        ready: its `Ready`, or None.
        last_message_at: time of its last message by `now`, other than that it has no place yet.

    Raises:
        OSError, RuntimeError: if it cannot be started.
    """

    def __init__(
        self,
        start: Callable[[OnMessage], WorkerHandle],
        read_failure: Callable[[Failed], AuctuneError],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_failure, self._now = read_failure, now
        self._lock = threading.Lock()
        self._handle: WorkerHandle | None = None
        self._has_handle = threading.Event()
        self._pending: deque[Future[Any]] = deque()
        self._error: AuctuneError | None = None
        self.ready: Any = None
        self.last_message_at = now()
        try:
            self._handle = start(self._on_message)
        finally:
            self._has_handle.set()

    @property
    def pid(self) -> int | None:
        """Process id; None if it is a process of another machine."""
        return None if self._handle is None else self._handle.pid

    @property
    def is_starting(self) -> bool:
        """Return whether it may become ready."""
        return self.ready is None and self._error is None

    @property
    def has_ended(self) -> bool:
        """Return whether it answers no more."""
        return self._error is not None

    def request(self, message: object) -> Future[Any]:
        """Send a request; does not wait. The future raises what the worker could not do.

        Raises (of the future):
            WorkerEndedError: if the worker ended before it answered.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._error is None:
                assert self._handle is not None
                self._handle.send(message)
                self._pending.append(future)
            else:
                future.set_exception(self._error)
        return future

    def result(self, answer: "Future[T]", seconds: float | None = None) -> T:
        """Return the answer to a request; a worker that is stuck is killed.

        Args:
            answer: of `request`.
            seconds: that it may take; `None`: any time, while heartbeats come.

        Raises:
            WorkerEndedError: if the worker has ended, or was stuck.
            AuctuneError: if it could not do what was requested.
        """
        begun = self._now()
        while True:
            with suppress(TimeoutError):
                return answer.result(_POLL_SECONDS)
            since = self.last_message_at if seconds is None else begun
            if self._now() - since > (STUCK_SECONDS if seconds is None else seconds):
                self.kill()
                raise WorkerEndedError("a worker did not answer, and was killed")

    def exit_reason(self) -> str:
        """Return how a worker that has ended did so."""
        assert self._handle is not None
        return self._handle.exit_reason()

    def stop(self, timeout: float = 30.0) -> None:
        """Have the worker save its work and exit within so many seconds, or kill it."""
        assert self._handle is not None
        self._handle.stop(timeout)

    def kill(self) -> None:
        """End the worker at once; may be called again."""
        assert self._handle is not None
        self._handle.kill()

    def _on_message(self, message: Any) -> None:
        # One that could not be started has none, and nobody asks.
        self._has_handle.wait()
        with self._lock:
            if message is None:
                error = self._error = self._error or self._end()
                while self._pending:
                    self._pending.popleft().set_exception(error)
                return
            if not isinstance(message, Missing):
                self.last_message_at = self._now()
            match message:
                case Ready():
                    self.ready = message
                case Failed() if self.ready is None:
                    # It could not start, and ends.
                    self._error = self._read_failure(message)
                case Failed():
                    self._pending.popleft().set_exception(self._read_failure(message))
                case Response():
                    self._pending.popleft().set_result(message)

    def _end(self) -> WorkerEndedError:
        how = "did not start" if self._handle is None else self._handle.exit_reason()
        return WorkerEndedError(f"a worker {how}")


def serve(
    parent: ParentChannel[Any, Any],
    handle: Callable[[Any], Response],
    failed_message: Callable[[Exception], Failed],
) -> None:
    """Answer the requests of a worker's parent until it is to stop.

    Args:
        parent: of the worker.
        handle: returns the response to a request.
        failed_message: returns the response in place of what `handle` raised.
    """
    while not isinstance(request := parent.inbox.get(), Stop):
        try:
            parent.send(handle(request))
        # Whatever a job's rows or the lack of memory bring about ends the worker of no other slot.
        except Exception as error:
            parent.send(failed_message(error))
