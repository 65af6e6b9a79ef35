"""Who waits to hear that something is on record: streams of events, webhooks.

News say that there is something to read, and where; what it is stands in the log.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class News:
    """Wakes listeners on one loop; told from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def listening(self, topic: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is news of a job or a zone, by its name.

        It is for its listener to clear, before it reads.
        """
        heard = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._listeners.setdefault(topic, set()).add(heard)
        try:
            yield heard
        finally:
            with self._lock:
                self._listeners[topic].discard(heard)
                if not self._listeners[topic]:
                    del self._listeners[topic]

    def tell(self, topics: Iterable[str]) -> None:
        """There is news of these."""
        # Most of the time nobody listens: bids must not wait for a lock then.
        if not self._listeners:
            return
        with self._lock:
            heard = [one for topic in topics for one in self._listeners.get(topic, ())]
            loop = self._loop
        if heard and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(_set_all, heard)


def _set_all(heard: list[asyncio.Event]) -> None:
    for one in heard:
        one.set()
