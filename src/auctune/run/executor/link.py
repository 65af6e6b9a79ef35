"""What a node's process is spoken to by, wherever it runs; and what starts one.

A process of this machine and one beside an actor of a cluster take the same messages and say the
same. They differ in what is known of their end: a child that was killed is gone; one elsewhere is
known to be gone when it said so, or when it must have ended by itself.
"""

from collections.abc import Sequence
from typing import Protocol

from auctune.run.child import Hear
from auctune.run.executor.messages import TaskOrder


class NodeLink(Protocol):
    """To one process of a node."""

    @property
    def pid(self) -> int | None:
        """Of the process; none: it says so itself, in a message `started`."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether the process can no longer do anything, once it has ended or was killed."""
        ...

    def ping(self) -> None:
        """Ask whether it takes orders."""
        ...

    def measure(self, effort: str) -> None:
        """Ask for a profile."""
        ...

    def train(
        self,
        slot: int,
        orders: Sequence[TaskOrder],
        *,
        order: str = "",
        until: float | None = None,
    ) -> None:
        """Ask for a slot's work; as of `NodeProcess`."""
        ...

    def ending(self) -> str:
        """How a process that has ended did so."""
        ...

    def ask_to_stop(self) -> None:
        """Let it put its work away and end; does not wait for it."""
        ...

    def stop(self, seconds: float = 30.0) -> None:
        """See that it ends within so many seconds; it puts its work away first, if it can."""
        ...

    def kill(self) -> None:
        """End it at once, and let go of it; `is_gone` says when that has come about."""
        ...


class Launch(Protocol):
    """Starts nodes' processes."""

    def start(self, node: str, hear: Hear) -> NodeLink:
        """Start a node's process; does not wait for it.

        Args:
            node: its id.
            hear: told each of its messages, and None once it has ended, on any thread.

        Raises:
            OSError: if it cannot be started.
        """
        ...

    def close(self) -> None:
        """Let go of whatever processes were started with; they have been stopped."""
        ...
