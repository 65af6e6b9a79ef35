"""Background tasks of the event loop, and what wakes them: that events have been committed.

A notification names a topic; subscribers read the content from the log.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class TaskSet:
    """Background tasks of one owner, referenced until they are done; their errors are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task on the running loop."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("a background task failed", exc_info=error)


class Notifier:
    """Wakes subscribers on one event loop; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: dict[str, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def subscribe(self, topic: str) -> Iterator[asyncio.Event]:
        """Subscribe to a topic, the name of a job or a zone, until the context ends.

        The event is set at each notification. The subscriber clears it before it reads.
        """
        changed = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._subscribers.setdefault(topic, set()).add(changed)
        try:
            yield changed
        finally:
            with self._lock:
                self._subscribers[topic].discard(changed)
                if not self._subscribers[topic]:
                    del self._subscribers[topic]

    def publish(self, topics: Iterable[str]) -> None:
        # Usually there are no subscribers, and decisions need not wait for the lock.
        if not self._subscribers:
            return
        with self._lock:
            changed = [one for topic in topics for one in self._subscribers.get(topic, ())]
            loop = self._loop
        if changed and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(_set_all, changed)


def _set_all(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()
