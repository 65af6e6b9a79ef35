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
    """Carries answers to one loop.

    Waking a loop takes a call of the system, and the loop then wants the interpreter that the
    answering thread has: what is answered while it waits for that is handed out with it.

    Args:
        loop: where they are awaited.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._answers: deque[tuple[asyncio.Future[Any], Any, Exception | None]] = deque()
        self._is_woken = False

    def resolve(self, to: "asyncio.Future[T]", answer: T | None, error: Exception | None) -> None:
        """An answer, or why there is none; on any thread."""
        self._answers.append((to, answer, error))
        if not self._is_woken:
            self._is_woken = True
            # Nobody waits on a loop that is closed.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # First, so that what comes from here on wakes the loop again.
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
    """An answer that is awaited on a loop; to the thread that gives it, like a `Future`.

    Args:
        post: of the loop, on which this is made.
    """

    __slots__ = ("_post", "future")

    def __init__(self, post: LoopResolver) -> None:
        self._post = post
        self.future: asyncio.Future[T] = post.loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Whether anybody still waits."""
        return not self.future.cancelled()

    def set_result(self, answer: T) -> None:
        """Answer."""
        self._post.resolve(self.future, answer, None)

    def set_exception(self, error: Exception) -> None:
        """There is none."""
        self._post.resolve(self.future, None, error)


# The actor: it runs one command after the other and answers none before its commit.
#
# A command runs on the zone; the events that it made are handed to the log, and its answer is
# given once they are on disk. Meanwhile the next command runs: a flush of the disk is shared by
# all that wait for it. If the log fails, or a command breaks off between decision and record, what
# is in memory is no longer what is on disk: the actor closes for good, tells so, and the zone must
# be read from the log again.

_log = structlog.get_logger(__name__)

# An actor of a kind of zone is an actor of any zone.
Z_co = TypeVar("Z_co", bound=AnyZone, covariant=True)
OnFailure = Callable[[Exception], None]
"""Told once why a actor has closed, on any thread."""


class ZoneUnavailableError(AuctuneError):
    """The zone takes no commands now."""


class _Command(Generic[Z_co, T]):
    __slots__ = ("answer", "run")

    def __init__(self, run: Callable[[Z_co], T], answer: "Future[T] | LoopFuture[T]") -> None:
        self.run = run
        self.answer = answer


def _ignore(_: Exception) -> None:
    """For a actor whose end nobody waits for."""


class ZoneActor(Generic[Z_co]):
    """One zone's thread.

    Args:
        zone: touched by nobody else from now on.
        recorder: the log.
        tell: told if the actor closes by itself.
    """

    def __init__(self, zone: Z_co, recorder: EventWriter, tell: OnFailure = _ignore) -> None:
        self._zone = zone
        self._recorder = recorder
        self._on_failure = tell
        self._commands: queue.SimpleQueue[_Command[Z_co, object] | None] = queue.SimpleQueue()
        self._post: LoopResolver | None = None
        self._failure: Exception | None = None
        self._failing = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name=f"actor-{zone.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """Of the zone."""
        return self._zone.name

    @property
    def failure(self) -> Exception | None:
        """Why the actor has closed; none: all is well."""
        return self._failure

    def submit(self, run: Callable[[Z_co], T]) -> Future[T]:
        """Run a command on the zone; its answer comes when all that it did is on disk."""
        answer: Future[T] = Future()
        self._commands.put(_Command(run, answer))  # type: ignore[arg-type]
        return answer

    def call(self, run: Callable[[Z_co], T]) -> "asyncio.Future[T]":
        """The same, to be awaited on the running loop."""
        loop = asyncio.get_running_loop()
        if self._post is None or self._post.loop is not loop:
            self._post = LoopResolver(loop)
        answer: LoopFuture[T] = LoopFuture(self._post)
        self._commands.put(_Command(run, answer))  # type: ignore[arg-type]
        return answer.future

    def post(self, run: Callable[[Z_co], None], alarm: OnFailure) -> None:
        """Run a command for whose answer nobody waits.

        Args:
            run: the command.
            alarm: told if it fails, unless that closes the actor, which tells so itself.
        """

        def check(answer: Future[None]) -> None:
            error = answer.exception()
            if error is not None and self._failure is None:
                alarm(error if isinstance(error, Exception) else RuntimeError(str(error)))

        self.submit(run).add_done_callback(check)

    def close(self) -> None:
        """Answer what was asked so far, and end."""
        self._commands.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (command := self._commands.get()) is not None:
            if command.answer.set_running_or_notify_cancel():
                self._run_safely(command)

    def _run_safely(self, command: _Command[Z_co, T]) -> None:
        """Whatever happens, the thread goes on, so that nobody waits for good."""
        if self._failure is not None:
            command.answer.set_exception(_closed(self._failure))
            return
        try:
            self._run(command)
        except BaseException as error:
            # A mistake of ours, and no command's: what is on record is not known any more.
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
            # What a command did before it was refused has happened; it is kept like the rest.
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
    return ZoneUnavailableError(f"the market cannot be written to ({error}); try again later")
