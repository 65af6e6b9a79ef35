"""The fold that makes a zone's state of its events, the same live and after a restart."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent


class State(Protocol):
    """What a zone has come to.

    Attributes:
        seq: of the newest event applied.
    """

    seq: int


S = TypeVar("S", bound=State)


def apply(
    handlers: Mapping[str, Callable[[S, ZoneEvent], Change]], state: S, event: ZoneEvent
) -> Change:
    """Take over what happened; what it changes outside.

    Args:
        handlers: by kind of event what it does to a state; others do nothing.
        state: changed.
        event: newer than all that the state knows.
    """
    state.seq = event.seq
    handler = handlers.get(event.kind)
    return Change() if handler is None else handler(state, event)
