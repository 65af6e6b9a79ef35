"""Answers of a thread to those who await them on a loop, which is woken once for many."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Post:
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


class LoopAnswer(Generic[T]):
    """An answer that is awaited on a loop; to the thread that gives it, like a `Future`.

    Args:
        post: of the loop, on which this is made.
    """

    __slots__ = ("_post", "future")

    def __init__(self, post: Post) -> None:
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
