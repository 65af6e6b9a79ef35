"""Calls that any thread posts to the one thread that owns what they touch, instead of locks."""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress


class Mailbox:
    """Posted calls, each run once, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        """Return whether the owning thread should end."""
        return self._closed.is_set()

    def post(self, call: Callable[[], None]) -> None:
        """Queue a call; does not wait for it."""
        self._calls.put(call)

    def close(self) -> None:
        """Have the owning thread end, also if it waits."""
        self._closed.set()
        self._calls.put(lambda: None)

    def run_pending(self, timeout: float = 0.0) -> None:
        """Run all queued calls on this thread; wait up to `timeout` seconds for the first one."""
        with suppress(queue.Empty):
            self._calls.get(timeout=timeout)()
            while True:
                self._calls.get_nowait()()
