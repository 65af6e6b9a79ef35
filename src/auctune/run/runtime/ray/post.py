"""The actor's side of what is carried to and from its market; knows no process."""

from auctune.run.runtime.channel import Message
from auctune.run.runtime.ray.exchange import Reply, Request
from auctune.run.runtime.ray.lease import Lease


class Post:
    """Keeps what the node says until it was seen, and hands on what it is told once.

    Args:
        lease: renewed by requests that acknowledge replies.
    """

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.ending: str | None = None
        self._said: list[Message] = []
        self._seen = 0
        self._taken = 0
        self._number = 0

    @property
    def has_news(self) -> bool:
        """Whether there is something that the market has not seen."""
        return bool(self._said) or self.ending is not None

    def say(self, message: Message) -> None:
        """To the market."""
        self._said.append(message)

    def take(self, request: Request) -> tuple[Message, ...]:
        """What a request tells the node that was not told before."""
        self.lease.acknowledged(request.answered)
        seen = max(self._seen, request.seen)
        del self._said[: seen - self._seen]
        self._seen = seen
        news = request.told[max(0, self._taken - request.first) :]
        self._taken += len(news)
        return news

    def reply(self) -> Reply:
        """Everything that the market may not have seen."""
        self._number += 1
        self.lease.replied(self._number)
        return Reply(self._number, self._taken, self._seen, tuple(self._said), self.ending)
