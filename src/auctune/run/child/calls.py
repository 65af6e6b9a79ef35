"""Calls that any thread hands to the one thread that owns what they touch.

So what children say, and what others want of them, needs no lock.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress


class Calls:
    """Calls that wait for their thread; each is made once, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closing = threading.Event()

    @property
    def is_closed(self) -> bool:
        """Whether their thread is to come to its end."""
        return self._closing.is_set()

    def put(self, call: Callable[[], None]) -> None:
        """Hand over a call; does not wait for it."""
        self._waiting.put(call)

    def close(self) -> None:
        """Tell the thread to come to its end, also if it waits."""
        self._closing.set()
        self._waiting.put(lambda: None)

    def make(self, seconds: float = 0.0) -> None:
        """Make all calls that have come, on this thread.

        Args:
            seconds: to wait at most, if none has come.
        """
        with suppress(queue.Empty):
            self._waiting.get(timeout=seconds)()
            while True:
                self._waiting.get_nowait()()
