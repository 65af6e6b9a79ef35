"""Journals: logs of runs as earlier releases wrote them, one event a line.

A line is the event's CRC-32 in hexadecimal, a blank, and the event as JSON. A process killed while
it wrote left an incomplete last line, whose event was not acknowledged. A damaged line before that
is an error, since what follows it cannot be trusted. Numbers that are not finite, such as the loss
of a task that diverged, are stored in Python's own spelling.
"""

import json
import zlib
from pathlib import Path
from typing import Any

from auctune.domain import InputError

JOURNAL = "journal.jsonl"
"""Name of a run's journal in its state folder."""


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the events of a journal, oldest first; empty without a file.

    Raises:
        InputError: if a line other than the last is damaged.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    events: list[dict[str, Any]] = []
    for number, line in enumerate(lines[:-1], start=1):
        checksum, _, text = line.partition(b" ")
        if checksum == f"{zlib.crc32(text):08x}".encode():
            events.append(json.loads(text))
        elif number < len(lines) - 1:
            raise InputError(f"{path}: line {number}", "is damaged", "an event with its checksum")
    return events
