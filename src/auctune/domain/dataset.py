"""Training data: JSONL files of one kind of row each.

| kind | a row |
| --- | --- |
| chat | {"messages": [{"role": "system" | "user" | "assistant", "content": str}, ...]} |
| completion | {"prompt": str, "completion": str} |
| text | {"text": str} |

Other keys are ignored. Blank lines are skipped.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from auctune.domain.errors import InputError

ROLES = ("system", "user", "assistant")
EXPECTED_ROW = 'a JSON object with "messages", or "prompt" and "completion", or "text"'


class RowKind(StrEnum):
    """What the rows of a data set look like."""

    CHAT = "chat"
    COMPLETION = "completion"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Rows of one kind, as read from a file."""

    kind: RowKind
    rows: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.rows)


def read_dataset(path: Path, place: str | None = None) -> DataSet:
    """All rows of a JSONL file, checked.

    Args:
        path: the file.
        place: how errors call it; none: by its path.

    Raises:
        InputError: naming file and line, if the file cannot be read, is empty, has a line that is
            no JSON object, a row of no known kind, an empty row, or rows of mixed kinds.
    """
    place = place or str(path)
    kind: RowKind | None = None
    first_line = 0
    rows = []
    for number, line in iterate_lines(path, place):
        row = parse_row(line, f"{place}: line {number}")
        row_kind = check_row(row, f"{place}: line {number}")
        if kind is None:
            kind, first_line = row_kind, number
        elif row_kind is not kind:
            raise InputError(
                f"{place}: line {number}",
                f"a {row_kind} row, while line {first_line} is a {kind} row",
                "rows of one kind only",
            )
        rows.append(row)
    if kind is None:
        raise InputError(place, "has no rows", f"one row a line, each {EXPECTED_ROW}")
    return DataSet(kind, tuple(rows))


def iterate_lines(
    path: Path, place: str, errors: Literal["strict", "replace"] = "strict"
) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, with their numbers from 1.

    Args:
        path: the file.
        place: how errors call it.
        errors: what to do with bytes that are not UTF-8: refuse the file, or mark them.

    Raises:
        InputError: if the file cannot be read as UTF-8 text.
    """
    try:
        with path.open(encoding="utf-8-sig", errors=errors) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(
            place, f"cannot be read ({error.strerror})", "a readable JSONL file"
        ) from None
    except UnicodeDecodeError:
        raise InputError(place, "is not UTF-8 text", "a JSONL file in UTF-8") from None


def parse_row(line: str, place: str) -> dict[str, Any]:
    """The JSON object on one line.

    Raises:
        InputError: if it is no JSON, or no object.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(place, f"is not JSON ({error})", EXPECTED_ROW) from None
    if not isinstance(row, dict):
        raise InputError(place, f"is a JSON {type(row).__name__}, no object", EXPECTED_ROW)
    return row


def check_row(row: dict[str, Any], place: str) -> RowKind:
    """The kind of a row, once it is known to be a whole one.

    Raises:
        InputError: if it is of no kind, of several, or lacks text.
    """
    kinds = [
        kind
        for kind, key in (
            (RowKind.CHAT, "messages"),
            (RowKind.COMPLETION, "completion"),
            (RowKind.TEXT, "text"),
        )
        if key in row
    ]
    if len(kinds) != 1:
        keys = ", ".join(map(repr, row)) or "none"
        raise InputError(place, f"a row with keys {keys}", EXPECTED_ROW)
    if kinds[0] is RowKind.CHAT:
        _check_messages(row["messages"], place)
    elif kinds[0] is RowKind.COMPLETION:
        _check_text(row.get("prompt"), f"{place}: prompt", may_be_empty=True)
        _check_text(row["completion"], f"{place}: completion")
    else:
        _check_text(row["text"], f"{place}: text")
    return kinds[0]


def _check_messages(messages: Any, place: str) -> None:
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{place}: messages", "is no list, or empty", "a list of messages")
    for index, message in enumerate(messages):
        where = f"{place}: messages[{index}]"
        if not isinstance(message, dict):
            raise InputError(where, "is no object", 'an object with "role" and "content"')
        if message.get("role") not in ROLES:
            raise InputError(
                f"{where}.role", f"{message.get('role')!r}", f"one of {', '.join(ROLES)}"
            )
        _check_text(message.get("content"), f"{where}.content")
    if not any(message["role"] == "assistant" for message in messages):
        raise InputError(f"{place}: messages", "no message of the assistant", "one to learn from")


def _check_text(value: Any, place: str, *, may_be_empty: bool = False) -> None:
    if not isinstance(value, str) or not (value.strip() or may_be_empty):
        raise InputError(
            place, f"{value!r}"[:60], "a text" + ("" if may_be_empty else ", not empty")
        )
