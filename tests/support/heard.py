"""What an executor says, as a test waits for it."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from auctune.engine.runtime.supervisor import Executor, OnNodeMessage
from support.waits import WAIT_SECONDS

M = TypeVar("M")


@dataclass
class Heard:
    """Everything that was said, in its order."""

    messages: list[tuple[str, Any]] = field(default_factory=list)
    _inbox: "queue.SimpleQueue[tuple[str, Any]]" = field(default_factory=queue.SimpleQueue)

    @property
    def hear(self) -> OnNodeMessage:
        return lambda node, message: self._inbox.put((node, message))

    def wait_for(self, kind: type[M], node: str = "alpha", **values: object) -> M:
        """The next message of this class from a node, with these values; keeps those before it."""
        while True:
            self.messages.append(self._inbox.get(timeout=WAIT_SECONDS))
            sender, message = self.messages[-1]
            if sender != node or not isinstance(message, kind):
                continue
            if all(getattr(message, name) == value for name, value in values.items()):
                return message

    def kinds(self, *, without: tuple[type, ...] = ()) -> list[type]:
        return [type(one) for _, one in self.messages if not isinstance(one, without)]


@contextmanager
def closing(executor: Executor) -> Iterator[Executor]:
    """Ends an executor's processes with the block."""
    try:
        yield executor
    finally:
        executor.close()
