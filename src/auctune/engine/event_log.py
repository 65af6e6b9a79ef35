"""Event log of a run: one event a line, on disk before any other process learns of it.

A line is the event's CRC-32 in hexadecimal, a blank, and the event as JSON. A process killed while
it wrote leaves an incomplete last line: the event was not acknowledged, and is cut off. A damaged
line before that is an error, since what follows it cannot be trusted. Numbers that are not finite,
such as the loss of a task that diverged, are stored in Python's own spelling.
"""

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from auctune.domain import InputError

EventRecord = dict[str, Any]
"""An event as JSON values; its key `type` says which."""


class EventLog:
    """An append-only file of events.

    Args:
        path: created if it does not exist.

    Attributes:
        events: all events so far, oldest first.

    Raises:
        InputError: if a line other than the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.events, length = _read(path)
        self._file: BinaryIO = path.open("ab")
        self._file.truncate(length)

    def append(self, event: EventRecord) -> None:
        """Write an event; when this returns, it is on disk.

        Raises:
            OSError: if it cannot be written. The log is closed: what has reached the file is known
                once it is opened again.
        """
        text = json.dumps(event).encode()
        try:
            self._file.write(_checksum(text) + b" " + text + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):
                self._file.close()
            raise
        self.events.append(event)

    def check_identity(self, identity: Mapping[str, object]) -> None:
        """Make sure that a resumed run is the one that was started; a new one has no event yet.

        Raises:
            InputError: naming the value of `identity` that the first event does not have.
        """
        check_identity(self.events, identity)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def check_identity(events: Sequence[EventRecord], identity: Mapping[str, object]) -> None:
    """Make sure that these are events of the run with an identity; of a new one there is none yet.

    Raises:
        InputError: naming the value of `identity` that the first event does not have.
    """
    for started in events[:1]:
        for name, value in identity.items():
            if started.get(name) != value:
                expected = f"{started.get(name)!r}, with which the run began"
                raise InputError(name, f"{value!r}", expected)


def read_events(path: Path) -> list[EventRecord]:
    """Return the events of a log that another process may be writing; empty without a file.

    Raises:
        InputError: if a line other than the last is damaged.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[EventRecord], int]:
    """Return the complete events of a file, and how many bytes they take."""
    if not path.exists():
        return [], 0
    lines = path.read_bytes().split(b"\n")
    events: list[EventRecord] = []
    length = 0
    for number, line in enumerate(lines[:-1], start=1):
        event = _parse(line)
        if event is None:
            if number == len(lines) - 1:
                break
            raise InputError(f"{path}: line {number}", "is damaged", "an event with its checksum")
        events.append(event)
        length += len(line) + 1
    return events, length


def _parse(line: bytes) -> EventRecord | None:
    checksum, _, text = line.partition(b" ")
    if checksum != _checksum(text):
        return None
    event: EventRecord = json.loads(text)
    return event


def _checksum(text: bytes) -> bytes:
    return f"{zlib.crc32(text):08x}".encode()
