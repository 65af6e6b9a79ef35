"""Interfaces of the runtime: handle of a worker process, and launcher of a node's worker.

Both are implemented twice: for processes of this machine, and for those beside an actor of a Ray
cluster. They differ in what is known of a worker's end: a local process that was killed is gone; a
remote one is gone when its machine has said so, or when it must have ended by itself.
"""

from collections.abc import Mapping
from typing import Protocol

from auctune.engine.runtime.channel import OnMessage


class WorkerHandle(Protocol):
    """Handle of a worker process."""

    @property
    def pid(self) -> int | None:
        """Process id; None: the worker reports it in a message `started`."""
        ...

    @property
    def is_gone(self) -> bool:
        """Return whether the process can no longer do anything, once it has ended or was killed."""
        ...

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message, without waiting for it to be read; an ended process gets none."""
        ...

    def exit_reason(self) -> str:
        """Return how a process that has ended did so."""
        ...

    def request_stop(self) -> None:
        """Let the worker save its work and exit; does not wait for it."""
        ...

    def stop(self, timeout: float = 30.0) -> None:
        """Have the worker save its work and exit within so many seconds, or kill it."""
        ...

    def kill(self) -> None:
        """Kill the process, and release the handle; `is_gone` says when it has taken effect."""
        ...


class NodeLauncher(Protocol):
    """Starts the worker processes of nodes."""

    def start(self, node: str, on_message: OnMessage) -> WorkerHandle:
        """Start a node's worker; does not wait for it.

        Args:
            node: its id.
            on_message: called with each of its messages, on any thread.

        Raises:
            OSError: if it cannot be started.
        """
        ...

    def close(self) -> None:
        """Release what the workers were started with; they have been stopped."""
        ...
