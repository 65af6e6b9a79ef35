"""The rows of a file that claims to be JSONL, as text, whatever its bytes are.

A file that is one JSON array (as many data sets are published) counts as one row an element.
"""

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row before anything is known of it.

    Attributes:
        line: where it starts in the file, from 1.
        text: as decoded.
        recoded: whether it had to be read otherwise than as plain UTF-8.
    """

    line: int
    text: str
    recoded: bool


def read_raw_rows(path: Path) -> list[RawRow]:
    """All rows that are not blank.

    The file is held in memory: choosing one kind of row needs all of them at once.

    Raises:
        InputError: if the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            str(path), f"cannot be read ({error.strerror})", "a readable data set"
        ) from None
    marked = data.startswith((codecs.BOM_UTF8, *UTF16_MARKS))
    lines = list(_decode_lines(data, recoded=marked))
    return _split_array(lines) or [row for row in lines if row.text.strip("\ufeff \t\r\n\f\v")]


def _decode_lines(data: bytes, *, recoded: bool) -> Iterator[RawRow]:
    """The lines, each decoded by itself: one bad byte must not cost the whole file."""
    if data.startswith(UTF16_MARKS):
        lines = data.decode("utf-16", errors="replace").encode().splitlines()
    else:
        lines = data.removeprefix(codecs.BOM_UTF8).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            yield RawRow(number, line.decode("utf-8"), recoded)
        except UnicodeDecodeError:
            yield RawRow(number, line.decode("cp1252", errors="replace"), True)


def _split_array(lines: list[RawRow]) -> list[RawRow]:
    """The elements of the one JSON array that the file is; empty if it is none."""
    first = next((row.text.lstrip() for row in lines if row.text.strip()), "")
    if not first.startswith("["):
        return []
    text = "\n".join(row.text for row in lines)
    start = text.index("[")
    try:
        elements = list(_iterate_elements(text, start + 1))
    except (ValueError, RecursionError):
        return []
    line, rows, counted = 1, [], 0
    for begin, end in elements:
        line += text.count("\n", counted, begin)
        counted = begin
        rows.append(RawRow(line, text[begin:end], lines[line - 1].recoded))
    return rows


def _iterate_elements(text: str, position: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each element of the array whose bracket opens before `position`."""
    decoder = json.JSONDecoder(strict=False)
    position = _skip_blank(text, position)
    while not text.startswith("]", position):
        _, end = decoder.raw_decode(text, position)
        yield position, end
        position = _skip_blank(text, end)
        if text.startswith(",", position):
            position = _skip_blank(text, position + 1)
        elif not text.startswith("]", position):
            raise ValueError(f"no comma between elements at {position}")
    if _skip_blank(text, position + 1) != len(text):
        raise ValueError("text after the array")


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
