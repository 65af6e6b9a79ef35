"""Supervises a zone's process: start, heartbeat, restart with backoff.

It is started again at once, then after pauses that double. What it did is on disk: it tells it
again from where its zone has it.
"""

import time
from collections.abc import Callable
from typing import Protocol

import structlog

from auctune.run.child import Hear, Message

_log = structlog.get_logger(__name__)

# A live process sends a heartbeat every second, but loading libraries blocks all threads.
_SILENT_SECONDS = 120.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_TRIES = 5
_STOP_SECONDS = 10.0


class ManagedProcess(Protocol):
    """A zone's process."""

    def ending(self) -> str:
        """How it ended."""
        ...

    def kill(self) -> None:
        """End it at once, and let go of it."""
        ...

    def stop(self, seconds: float = ...) -> None:
        """See that it ends within so many seconds."""
        ...


class ProcessSupervisor:
    """Keeps one process. All but what it hears is called on one thread at a time.

    Args:
        zone: whose process it is, in the service's log.
        launch: starts a process, whose messages go where it is told.
        hear: told its messages, on a thread of the process's.
        has_worked: whether a message says that it has done something: its endings count anew.
        now: seconds by a clock that only goes forward.
    """

    def __init__(
        self,
        zone: str,
        launch: Callable[[Hear], ManagedProcess],
        hear: Callable[[Message], None],
        has_worked: Callable[[Message], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch, self._tell, self._now = launch, hear, now
        self._log = _log.bind(zone=zone)
        self._has_worked = has_worked
        self._process: ManagedProcess | None = None
        self._ended = False
        self._endings = 0
        self._start_at = now()
        self._heard_at = now()

    @property
    def is_crash_looping(self) -> bool:
        """Whether it has ended so often in a row that nobody knows when it will be back."""
        return self._endings >= _TRIES

    def poll(self) -> bool:
        """Do what is due by now, maybe wait for an end; whether a new process was started."""
        now = self._now()
        if self._process is not None:
            if self._ended:
                self._reap(self._process.ending())
            elif now - self._heard_at > _SILENT_SECONDS:
                self._reap(f"was silent for {_SILENT_SECONDS:g} s")
        if self._process is not None or now < self._start_at:
            return False
        return self._start()

    def stop(self) -> None:
        """End it; what it has done is on disk."""
        if self._process is not None:
            self._process.stop(_STOP_SECONDS)
            self._process = None

    def _start(self) -> bool:
        self._ended, self._heard_at = False, self._now()
        try:
            self._process = self._launch(self._on_message)
        except OSError as error:
            self._record_exit(f"cannot be started ({error.strerror})")
            return False
        return True

    def _on_message(self, message: Message | None) -> None:
        """On a thread of the process's; the last word of one is heard before the next begins."""
        if message is None:
            self._ended = True
            return
        self._heard_at = self._now()
        if self._has_worked(message):
            self._endings = 0
        self._tell(message)

    def _reap(self, how: str) -> None:
        assert self._process is not None
        self._process.kill()
        self._process = None
        self._record_exit(how)

    def _record_exit(self, how: str) -> None:
        self._endings += 1
        wait = 0.0
        if self._endings > 1:
            wait = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._endings - 2))
        self._start_at = self._now() + wait
        self._log.warning("a zone's process ended", how=how, endings=self._endings, pause=wait)
