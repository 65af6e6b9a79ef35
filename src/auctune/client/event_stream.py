"""Server-sent events, read line by line (https://html.spec.whatwg.org/#server-sent-events)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """One event of a stream.

    Attributes:
        id: its number; a stream that is opened again goes on behind it.
        kind: what happened.
        data: what is said of it.
    """

    id: int
    kind: str
    data: dict[str, Any]


def read_events(lines: Iterable[str]) -> Iterator[StreamedEvent]:
    """The events in the lines of a stream, whole ones only; comments are passed over.

    Raises:
        ValueError: if they are no events of this service.
    """
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" in fields else value
        elif not line and "data" in fields:
            yield StreamedEvent(
                int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"])
            )
            fields = {}
