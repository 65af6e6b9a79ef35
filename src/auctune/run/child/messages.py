"""What a child process and its parent say to each other: JSON, one message a line."""

import json
from collections.abc import Callable
from typing import Any

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import OutOfMemoryError, RepairableError

Message = dict[str, Any]

Hear = Callable[[Message | None], None]
"""Told each message of a child, and None once it has ended, last."""


def encode(message: Message) -> bytes:
    """A message as a line; numbers that are not finite are kept, as both ends are Python."""
    return json.dumps(message).encode() + b"\n"


def error_record(error: AuctuneError) -> Message:
    """An error as plain values; only an `InputError` has a place."""
    if isinstance(error, InputError):
        record: Message = {"place": error.place, "found": error.found, "expected": error.expected}
        return record | {"repairable": True} if isinstance(error, RepairableError) else record
    plain: Message = {"place": "", "found": str(error), "expected": ""}
    return plain | {"out_of_memory": True} if isinstance(error, OutOfMemoryError) else plain


def read_error(record: Message, otherwise: type[AuctuneError]) -> AuctuneError:
    """The error that `error_record` wrote; one without a place as `otherwise`."""
    if record["place"]:
        kind = RepairableError if record.get("repairable") else InputError
        return kind(record["place"], record["found"], record["expected"])
    return otherwise(record["found"])
