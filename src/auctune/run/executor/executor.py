"""Whatever makes nodes train: child processes on this machine, or actors on a cluster."""

from collections.abc import Callable, Sequence
from typing import Protocol

from auctune.run.child import Message
from auctune.run.executor.messages import TaskOrder

HearNode = Callable[[str, Message], None]
"""Told a node's id and what it says, one message at a time; it must neither wait nor raise."""


class Executor(Protocol):
    """Trains slots on nodes, and keeps the nodes going.

    Each order is answered by one message of the kinds `trained`, `failed` or `unanswered` that is
    not marked `stale`, whatever becomes of its node. Any message about another order than the one
    a node is at (late, or heard twice) has `stale` set. A task is on one node at a time: an order
    waits while another node is still at one of its tasks.

    | a node's message | what happened |
    | --- | --- |
    | started {pid, host} | its process began; the host is told if it is another |
    | preparing {what, share} | its base is being built |
    | ready {base_digest, architecture, context_tokens, origin} | it can train |
    | progress, noted, trained, failed {order, stale, ...} | as in executor.messages |
    | unanswered {order, slot, tasks, why, begun} | it has no result; `begun`: a node took it |
    | ended {how, endings, pause} | its process is gone, and is started again after a pause |
    | lost {how} | it ended again and again, or its machine is missing; it is tried on |
    | back {} | it was lost, and takes orders again |
    """

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their ids."""
        ...

    def start(
        self, slot: int, node: str, orders: Sequence[TaskOrder], until: float | None = None
    ) -> None:
        """Have a node train a slot; returns at once.

        Args:
            slot: its number.
            node: its id.
            orders: of the slot's tasks, one at least.
            until: when their checkpoints shall be on disk, unix time, whatever is trained by then;
                after that the order is not given (again). None: when all targets are reached.
        """
        ...

    def close(self) -> None:
        """End all nodes; nothing is told any more once it returns."""
        ...
