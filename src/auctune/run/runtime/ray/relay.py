"""The bridge's side of what is carried to and from one actor; knows nothing of Ray."""

import threading
from collections.abc import Callable, Sequence

from auctune.run.runtime.channel import Message
from auctune.run.runtime.ray.exchange import Reply, Request


class Relay:
    """Numbers what is said, and hands on each message of the node once, in its order.

    Args:
        hear: told the node's messages.
        lease_seconds: of the actor.
        now: seconds that never jump.
    """

    def __init__(
        self,
        hear: Callable[[Sequence[Message]], None],
        lease_seconds: float,
        now: Callable[[], float],
    ) -> None:
        self._hear = hear
        self._lease_seconds = lease_seconds
        self._now = now
        self._lock = threading.Lock()
        self._told: list[Message] = []
        self._taken = 0
        self._seen = 0
        self._answered = 0
        self._heard_at = 0.0
        self.is_to_end = False
        self.ending: str | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the actor has replied at all; what was told to one that has not is lost."""
        return self._answered > 0

    @property
    def left(self) -> float:
        """Seconds until the actor's lease is over for certain, if it does not reply again."""
        return self._heard_at + self._lease_seconds - self._now() if self.has_begun else 0.0

    def tell(self, message: Message) -> None:
        """Have a message carried to the node; on any thread."""
        with self._lock:
            self._told.append(message)

    def end(self) -> None:
        """Have the node end at once; on any thread."""
        self.is_to_end = True

    def request(self) -> Request:
        """What to send the actor now."""
        with self._lock:
            told = tuple(self._told)
        return Request(self._answered, self._seen, self._taken, told, self.is_to_end)

    def take(self, reply: Reply) -> None:
        """Take over what the actor replied."""
        if reply.number <= self._answered:
            return
        self._answered = reply.number
        self._heard_at = self._now()
        with self._lock:
            del self._told[: reply.taken - self._taken]
            self._taken = reply.taken
        news = reply.said[self._seen - reply.first :]
        self._seen += len(news)
        if news:
            self._hear(news)
        self.ending = reply.ending
