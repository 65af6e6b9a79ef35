"""The log of a metered zone once more: each event against what must have come of those before it.

A judge makes of an event the one that follows from what the zone knew: the same, but for what it
decides or computes anew. Where the two differ, field by field, the log does not follow from itself.
It goes on with decisions as they were answered and charges as they must have been, so that one
difference does not make others of all that came after it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from auctune.domain import InputError
from auctune.domain.recorded import Difference
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.metered import MeteredEventType

Body = dict[str, Any]
_ABSENT = "(none)"


class Judge(Protocol):
    """Goes through the log of one zone."""

    def again(self, event: ZoneEvent) -> Body | None:
        """The body that an event must have had; none: it cannot have happened at all."""
        ...

    def take(self, event: ZoneEvent) -> None:
        """Take over an event that can have happened."""
        ...


@dataclass(frozen=True, slots=True)
class MeteredAgain:
    """A period that was gone through again.

    Attributes:
        num_decisions, num_charges: compared.
        differences: none, if all is as it was.
    """

    num_decisions: int
    num_charges: int
    differences: tuple[Difference, ...]


def nobody() -> None:
    """Nobody counts."""


def always(_event: ZoneEvent) -> bool:
    """All are compared."""
    return True


def go_again(
    events: Iterable[ZoneEvent],
    judge: Judge,
    is_due: Callable[[ZoneEvent], bool] = always,
    advance: Callable[[], None] = nobody,
) -> MeteredAgain:
    """Go through a log again.

    Args:
        events: of a zone, from its beginning on.
        judge: of its kind, at the zone's beginning.
        is_due: tells which of them are compared, and not only how it came to those.
        advance: told after each decision.

    Raises:
        InputError: if an event is none that the service could have written.
    """
    counts = {EventType.DECIDED.value: 0, MeteredEventType.METERED.value: 0}
    differences: list[Difference] = []
    for event in events:
        try:
            # Decisions take long, and go on as they were answered anyway.
            is_needed = is_due(event) or event.kind != EventType.DECIDED
            body = judge.again(event) if is_needed else event.body
            found = _known(event, body)
            if body is not None:
                judge.take(replace(event, body=found))
        except (AssertionError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            wrong = f"cannot be read ({type(error).__name__}: {error})"
            raise InputError(
                f"event {event.seq}", wrong, "a log as this release writes it"
            ) from error
        if event.kind == EventType.DECIDED:
            advance()
        if is_due(event):
            counts[event.kind] = counts.get(event.kind, 0) + 1
            differences += differing(event, body)
    return MeteredAgain(
        counts[EventType.DECIDED], counts[MeteredEventType.METERED], tuple(differences)
    )


def _known(event: ZoneEvent, body: Body | None) -> Body:
    """What goes on: decisions as they were answered, all else as it must have been."""
    return event.body if body is None or event.kind == EventType.DECIDED else body


def differing(event: ZoneEvent, body: Body | None) -> Iterator[Difference]:
    """What of an event came out otherwise.

    Args:
        event: as recorded.
        body: as it must have been; none: not at all.
    """
    name = event.job or f"slot {event.slot}"
    if body is None:
        yield Difference(event.kind, name, f"event {event.seq}", "cannot have happened")
        return
    recorded, found = dict(_fields(event.body)), dict(_fields(body))
    for field in sorted(recorded.keys() | found.keys()):
        pair = recorded.get(field, _ABSENT), found.get(field, _ABSENT)
        if pair[0] != pair[1]:
            yield Difference(f"{event.kind}: {field}", name, *pair)


def _fields(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in body.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
