"""What a bridge and an actor send each other; either may come late, twice or not at all."""

from dataclasses import dataclass

from auctune.run.runtime.channel import Message


@dataclass(frozen=True, slots=True)
class Request:
    """Of the bridge.

    Attributes:
        answered: number of the newest reply that came.
        seen: how many of the node's messages came.
        first: how many messages to the node were sent before `told`.
        told: messages to the node that the actor has not acknowledged.
        end: whether the node is to end at once.
    """

    answered: int
    seen: int
    first: int
    told: tuple[Message, ...]
    end: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """Of the actor.

    Attributes:
        number: from 1 on.
        taken: how many messages were handed to the node.
        first: how many of the node's messages came before `said`.
        said: the node's messages that the bridge has not acknowledged.
        ending: how the node ended; none: it goes on.
    """

    number: int
    taken: int
    first: int
    said: tuple[Message, ...]
    ending: str | None
