"""A node process as the market holds it."""

import os
import queue
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from auctune.domain import AuctuneError
from auctune.run.child import ChildProcess, Hear, Message
from auctune.run.child.process import device_in_child
from auctune.run.executor.messages import NodeSettings, TaskOrder, train_message

WORKER = ("-m", "auctune.run.executor.worker")


class NodeError(AuctuneError):
    """A node process ended, or could not do what it was told."""


class NodeProcess(ChildProcess):
    """A child process that trains.

    Args:
        settings: what it loads and how it computes.
        hear, lock, log: as for any child process.
        program: arguments for the interpreter.
    """

    def __init__(
        self,
        settings: NodeSettings,
        hear: Hear,
        *,
        lock: int | None = None,
        log: Path | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        device = settings.device
        seen = replace(settings, device=device_in_child(device, os.environ))
        super().__init__(program, asdict(seen), hear, lock=lock, log=log, device=device)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, and that was noticed."""
        return self._process.returncode is not None

    def measure(self, effort: str) -> None:
        """Ask for a profile."""
        self.tell({"do": "measure", "effort": effort})

    def ping(self) -> None:
        """Ask whether it takes orders."""
        self.tell({"do": "ping"})

    def train(
        self,
        slot: int,
        orders: Sequence[TaskOrder],
        *,
        order: str = "",
        until: float | None = None,
    ) -> None:
        """Ask for a slot's work.

        Args:
            slot: its number.
            orders: of its tasks.
            order: id that the answers carry.
            until: when checkpoints shall be on disk, unix time, whatever is trained by then; none:
                whenever all targets are reached.
        """
        self.tell(train_message(slot, orders, order, until))


Inbox = queue.Queue[tuple[str, Message | None]]


def into(inbox: Inbox, node: str) -> Hear:
    """What puts a node's messages into an inbox, with the node's id."""
    return lambda message: inbox.put((node, message))
