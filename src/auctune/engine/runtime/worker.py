"""Interfaces of the runtime: what a worker runs, its handle, and the launcher of workers.

Handle and launcher are implemented twice: for processes of this machine, and for actors of a Ray
cluster. They differ in what is known of a worker's end: a local process that was killed is gone; a
remote one is gone when its machine has said so, or when it must have ended by itself.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from auctune.engine.messages.base import WorkerMessages
from auctune.engine.runtime.channel import OnMessage


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker runs.

    Attributes:
        module: of the worker; its `main` is called with a `ParentChannel` and the argument.
        argument: plain values; on a GPU, its `device` is replaced by the name that the worker
            knows it by.
        messages: `MESSAGES` of the module.
        device: that it computes on, as torch names it; it sees no GPU but this one and, with
            `num_devices`, the next ones.
        log: file to which its standard error is appended, or None.
        niceness: of the process and its children, 0 to 19: the larger, the less of busy cores it
            gets.
        fork: whether it may be forked by the fork server, if there is one and the device is a CPU;
            otherwise it is a fresh interpreter. It needs what the fork server has imported.
    """

    module: str
    argument: dict[str, Any]
    messages: WorkerMessages
    device: str = "cpu"
    log: Path | None = None
    niceness: int = 0
    fork: bool = True
    num_devices: int = 1


class WorkerHandle(Protocol):
    """Handle of a worker process."""

    @property
    def pid(self) -> int | None:
        """Process id; None: the worker reports it in a message `Started`."""
        ...

    @property
    def is_gone(self) -> bool:
        """Return whether the process can no longer do anything, once it has ended or was killed."""
        ...

    def is_lost(self) -> bool:
        """Return whether its machine is gone, and not the worker alone.

        May block for some seconds if the worker has just exited.
        """
        ...

    def send(self, message: Any) -> None:
        """Send a message, without waiting for it to be read; an ended process gets none."""
        ...

    def exit_reason(self) -> str:
        """Return how a process that has ended did so; may be called after `kill`."""
        ...

    def request_stop(self) -> None:
        """Let the worker save its work and exit; does not wait for it."""
        ...

    def stop(self, timeout: float = 30.0) -> None:
        """Have the worker save its work and exit within so many seconds, or kill it."""
        ...

    def kill(self) -> None:
        """Kill the process, and release the handle; may be called again, also once it has ended.

        Does not wait for a machine that does not answer: `is_gone` says when it has taken effect.
        """
        ...


class Launcher(Protocol):
    """Starts worker processes."""

    def start(self, name: str, on_message: OnMessage) -> WorkerHandle:
        """Start a worker; does not wait for it.

        Args:
            name: of the worker: a node's id, or a kind of instance.
            on_message: called with each of its messages, on any thread, maybe before this returns;
                and with None once it has ended, last.

        Raises:
            OSError, RuntimeError: if it cannot be started.
        """
        ...

    def close(self) -> None:
        """Release what the workers were started with; they have been stopped."""
        ...
