"""Single-writer actor of a zone."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Generic, TypeVar

import structlog

from auctune.domain import AuctuneError
from auctune.service.zones.core.zone import AnyZone, EventWriter

T = TypeVar("T")


class LoopResolver:
    """Resolves futures of one event loop from other threads.

    Waking a loop takes a system call, and the loop then waits for the interpreter lock that the
    resolving thread holds: futures that are resolved meanwhile share one wake-up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._answers: deque[tuple[asyncio.Future[Any], Any, Exception | None]] = deque()
        self._is_woken = False

    def resolve(self, to: "asyncio.Future[T]", answer: T | None, error: Exception | None) -> None:
        self._answers.append((to, answer, error))
        if not self._is_woken:
            self._is_woken = True
            # No future is awaited on a closed loop.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # First, so that a future resolved from here on wakes the loop again.
        self._is_woken = False
        while self._answers:
            to, answer, error = self._answers.popleft()
            if to.done():
                continue
            if error is None:
                to.set_result(answer)
            else:
                to.set_exception(error)


class LoopFuture(Generic[T]):
    """A future awaited on a loop; the thread that resolves it uses it like a `Future`."""

    __slots__ = ("_resolver", "future")

    def __init__(self, resolver: LoopResolver) -> None:
        self._resolver = resolver
        self.future: asyncio.Future[T] = resolver.loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Return whether the answer is still awaited."""
        return not self.future.cancelled()

    def set_result(self, answer: T) -> None:
        self._resolver.resolve(self.future, answer, None)

    def set_exception(self, error: Exception) -> None:
        self._resolver.resolve(self.future, None, error)


# The actor: it runs one command after the other and answers none before its commit.
#
# A command runs on the zone; its events are handed to the log, and its answer is given once they
# are on disk. Meanwhile the next command runs: all that wait for it share a flush of the disk. If
# the log fails, or a command fails between a change of state and its event, the state in memory
# differs from the log: the actor closes permanently and calls its callback, and the zone must be
# restored from the log.

_log = structlog.get_logger(__name__)

# An actor of a kind of zone is an actor of any zone.
Z_co = TypeVar("Z_co", bound=AnyZone, covariant=True)
OnFailure = Callable[[Exception], None]
"""Called once with the error that closed an actor, on any thread."""


class ZoneUnavailableError(AuctuneError):
    """The zone takes no commands now."""


class _Command(Generic[Z_co, T]):
    __slots__ = ("answer", "run")

    def __init__(self, run: Callable[[Z_co], T], answer: "Future[T] | LoopFuture[T]") -> None:
        self.run = run
        self.answer = answer


def _ignore(_: Exception) -> None:
    """Ignore the failure of an actor."""


class ZoneActor(Generic[Z_co]):
    """Single-writer actor of a zone: one thread that runs its commands in order.

    Only the actor may use the zone. `on_failure` is called if it closes because of an error.
    """

    def __init__(self, zone: Z_co, recorder: EventWriter, on_failure: OnFailure = _ignore) -> None:
        self._zone = zone
        self._recorder = recorder
        self._on_failure = on_failure
        self._commands: queue.SimpleQueue[_Command[Z_co, object] | None] = queue.SimpleQueue()
        self._resolver: LoopResolver | None = None
        self._failure: Exception | None = None
        self._failing = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name=f"actor-{zone.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return self._zone.name

    @property
    def failure(self) -> Exception | None:
        """The error that closed the actor, or None."""
        return self._failure

    def submit(self, run: Callable[[Z_co], T]) -> Future[T]:
        """Run a command on the zone; its answer is given when its events are on disk."""
        answer: Future[T] = Future()
        self._commands.put(_Command(run, answer))  # type: ignore[arg-type]
        return answer

    def call(self, run: Callable[[Z_co], T]) -> "asyncio.Future[T]":
        """Like `submit`, with a future of the running loop."""
        loop = asyncio.get_running_loop()
        if self._resolver is None or self._resolver.loop is not loop:
            self._resolver = LoopResolver(loop)
        answer: LoopFuture[T] = LoopFuture(self._resolver)
        self._commands.put(_Command(run, answer))  # type: ignore[arg-type]
        return answer.future

    def post(self, run: Callable[[Z_co], T], on_error: OnFailure) -> Future[T]:
        """Like `submit`, for an answer that nobody waits for.

        `on_error` is called if it fails, unless its failure closes the actor.
        """

        def check(answer: Future[T]) -> None:
            error = answer.exception()
            if error is not None and self._failure is None:
                on_error(error if isinstance(error, Exception) else RuntimeError(str(error)))

        answer = self.submit(run)
        answer.add_done_callback(check)
        return answer

    def close(self) -> None:
        """Run the commands submitted so far, then end the thread."""
        self._commands.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (command := self._commands.get()) is not None:
            if command.answer.set_running_or_notify_cancel():
                self._run_safely(command)

    def _run_safely(self, command: _Command[Z_co, T]) -> None:
        """Run a command; on any error the thread continues, so that every command is answered."""
        if self._failure is not None:
            command.answer.set_exception(_closed(self._failure))
            return
        try:
            self._run(command)
        except BaseException as error:
            # A defect of the actor, not of the command: the content of the log is unknown.
            lost = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._fail(lost)
            with suppress(InvalidStateError):
                command.answer.set_exception(_closed(lost))

    def _run(self, command: _Command[Z_co, T]) -> None:
        failure: Exception | None = None
        try:
            answer = command.run(self._zone)
        except Exception as error:
            failure = error
        if self._zone.has_unrecorded_change:
            assert failure is not None
            self._fail(failure)
            command.answer.set_exception(_closed(failure))
            return

        def give(lost: Exception | None) -> None:
            # Events that a command recorded before it failed are committed like all others.
            error = lost or failure
            if error is not None:
                command.answer.set_exception(error)
            else:
                command.answer.set_result(answer)

        self._persist(give)

    def _persist(self, give: Callable[[Exception | None], None]) -> None:
        def done(error: Exception | None) -> None:
            if error is not None:
                self._fail(error)
            give(None if error is None else _closed(error))

        happened = self._zone.pop_events()
        if not happened:
            give(None)
            return
        try:
            self._recorder.record(happened, done)
        except Exception as error:
            done(error)

    def _fail(self, error: Exception) -> None:
        with self._failing:
            first, self._failure = self._failure is None, self._failure or error
        if not first:
            return
        try:
            self._on_failure(error)
        except Exception:
            _log.exception("failure callback of an actor failed", zone=self.name, why=str(error))


def _closed(error: Exception) -> ZoneUnavailableError:
    # The log has the reason: it may have paths of the server.
    unavailable = ZoneUnavailableError("the market cannot be written to; try again later")
    unavailable.__cause__ = error
    return unavailable
