"""Supervisor of a zone's worker process: start, heartbeat, restart with backoff."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from auctune.engine.messages.base import Failed
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.supervisor import SupervisorPolicy

_log = structlog.get_logger(__name__)

# A live process sends a heartbeat every second, but loading libraries blocks all its threads. One
# that is loading takes some time to react to a stop.
_POLICY = SupervisorPolicy(
    heartbeat_seconds=120.0, max_exits=5, retry_seconds=30.0, stop_seconds=20.0
)


class ManagedProcess(Protocol):
    """Worker process that a supervisor starts and ends."""

    def exit_reason(self) -> str: ...

    def kill(self) -> None: ...

    def stop(self, seconds: float = ...) -> None:
        """Have the process exit within so many seconds, or kill it."""
        ...


class ProcessSupervisor:
    """Keeps one process running; its calls, messages apart, run one after the other.

    A process that ends is restarted at once, and after further exits in a row with a backoff that
    doubles.

    Args:
        launch: starts a process whose messages go to the given callback; its last is None.
        on_message: called with each message, on a thread of the process.
        is_progress: whether a message reports work that was done; see `record_progress`.
        now: monotonic clock.
        labels: of its lines in the log.

    Attributes:
        last_exit: how the process ended last.
    """

    def __init__(
        self,
        launch: Callable[[OnMessage], ManagedProcess],
        on_message: OnMessage,
        is_progress: Callable[[Any], bool],
        now: Callable[[], float] = time.monotonic,
        **labels: str,
    ) -> None:
        self._launch, self._handle, self._now = launch, on_message, now
        self._log = _log.bind(**labels)
        self._guard = threading.Lock()
        self._is_stopped = False
        self._is_progress = is_progress
        self._process: ManagedProcess | None = None
        self._has_ended = False
        self._num_exits = 0
        self.last_exit = ""
        self._start_at = now()
        self._last_message_at = now()

    @property
    def is_crash_looping(self) -> bool:
        """Return whether the process is in a crash loop, so that its restart is delayed."""
        return self._num_exits >= _POLICY.max_exits

    def poll(self) -> bool:
        """Reap an ended or silent process, and start one that is due; return whether it did.

        May block until a killed process has ended.
        """
        with self._guard:
            now = self._now()
            if self._process is not None:
                if self._has_ended:
                    self._reap(self._process.exit_reason())
                elif now - self._last_message_at > _POLICY.heartbeat_seconds:
                    self._reap(f"was silent for {_POLICY.heartbeat_seconds:g} s")
            if self._process is not None or now < self._start_at or self._is_stopped:
                return False
            return self._start()

    def record_progress(self) -> None:
        """Reset the backoff: the process has done work that lasts."""
        self._num_exits = 0

    def kill(self, why: str) -> None:
        """Kill the process, which counts as an exit; `poll` starts the next one."""
        with self._guard:
            if self._process is not None:
                self._reap(why)

    def stop(self) -> None:
        """Stop the process, and start no other; what it has done is on disk."""
        with self._guard:
            self._is_stopped = True
            if self._process is not None:
                self._process.stop(_POLICY.stop_seconds)
                self._process = None

    def _start(self) -> bool:
        self._has_ended, self._last_message_at = False, self._now()
        try:
            self._process = self._launch(self._on_message)
        except OSError as error:
            self._record_exit(f"cannot be started ({error.strerror})")
            return False
        # The system has no thread left.
        except RuntimeError as error:
            self._record_exit(f"cannot be started ({error})")
            return False
        return True

    def _on_message(self, message: Any) -> None:
        # A process sends its last message before the next process is started.
        if message is None:
            self._has_ended = True
            return
        self._last_message_at = self._now()
        if self._is_progress(message):
            self.record_progress()
        if isinstance(message, Failed):
            self._log.warning("a zone's process failed", why=message.error.found)
        self._handle(message)

    def _reap(self, how: str) -> None:
        assert self._process is not None
        self._process.kill()
        self._process = None
        self._record_exit(how)

    def _record_exit(self, how: str) -> None:
        self._num_exits += 1
        self.last_exit = how
        backoff = _POLICY.backoff(self._num_exits)
        self._start_at = self._now() + backoff
        self._log.warning(
            "a zone's process ended", how=how, exits=self._num_exits, backoff_seconds=backoff
        )
