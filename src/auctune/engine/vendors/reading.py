"""Reads the rows of a file that claims to be JSONL, whatever its bytes are.

A file that is one JSON array, as many data sets are published, counts as one row per element. Rows
of CSV and Parquet are read as they are trained on.
Broken JSON is repaired where that needs no guess at its content: control characters in strings,
stray text around the object, trailing commas, an object encoded twice, and Python literals (single
quotes, True, None), also mixed with JSON's words. An object that is cut off is not repaired: what
was lost cannot be known, and training on half an answer teaches to stop there.
"""

import ast
import codecs
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auctune.datasets.files import (
    UTF8,
    decompress,
    find_format,
    iterate_texts,
)
from auctune.domain.errors import InputError, RepairableError

MAX_DEPTH = 50
# Python's parser needs a hundred times the memory of its source.
MAX_LITERAL_CHARACTERS = 1_000_000

# A string of either quote, or one comma before a closing bracket, or one of JSON's words. A string
# left open runs to the end, which keeps the search linear.
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?)"""
    r"""|(?P<comma>,)(?=\s*[}\]])"""
    r"""|(?P<word>\b(?:true|false|null)\b)""",
    re.DOTALL,
)
_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}


@dataclass(frozen=True, slots=True)
class RawRow:
    """The text of one row, before it is parsed.

    Attributes:
        line: where it starts in the file, from 1.
        text: as decoded.
        recoded: whether it was in another encoding than plain UTF-8.
    """

    line: int
    text: str
    recoded: bool


def read_raw_rows(path: Path, place: str | None = None) -> list[RawRow]:
    """Return all rows that are not blank; `place` is how errors call the file, by default its name.

    The file is held in memory: the kind of most rows is known only when all were read.

    Raises:
        InputError: if the file cannot be read.
    """
    place = place or path.name
    file = find_format(path, place)
    if not file.is_json:
        try:
            rows = list(iterate_texts(path, place))
        except RepairableError as error:
            # Not by this vendor.
            raise InputError(error.place, error.found, error.expected) from None
        return [RawRow(int(where.split()[1]), text, recoded=False) for where, text in rows]
    data = decompress(path, place, file.compression)
    lines = list(_decode_lines(data, file.encoding))
    return _split_array(lines) or [row for row in lines if row.text.strip("\ufeff \t\r\n\f\v")]


def _decode_lines(data: bytes, encoding: str) -> Iterator[RawRow]:
    """Decode each line by itself: one bad byte must not cost the whole file."""
    recoded = encoding != UTF8 or data.startswith(codecs.BOM_UTF8)
    if encoding != UTF8:
        lines = data.decode(encoding, errors="replace").encode().splitlines()
    else:
        lines = data.removeprefix(codecs.BOM_UTF8).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            yield RawRow(number, line.decode("utf-8"), recoded)
        except UnicodeDecodeError:
            yield RawRow(number, line.decode("cp1252", errors="replace"), True)


def _split_array(lines: list[RawRow]) -> list[RawRow]:
    """Return the elements of the JSON array that the file is; empty if it is not one."""
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
    """Yield start and end of each element of the array that opens before `position`."""
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


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value read from one row, and whether the row had to be repaired for it."""

    value: object
    repaired: bool


def parse_or_repair(text: str) -> Parsed | None:
    """Return the JSON value in `text`, repaired if necessary, or None if that is impossible."""
    text = text.strip().removeprefix("\ufeff").strip()
    value = _load(text)
    if isinstance(value, str) and isinstance(inner := _load(value), dict):
        return Parsed(inner, repaired=True)
    if value is not None:
        return Parsed(value, repaired=False)
    for candidate in dict.fromkeys((text, _cut_to_object(text))):
        value = _load_repaired(candidate)
        if isinstance(value, dict | str):
            return Parsed(value, repaired=True)
    return None


def _load(text: str, *, strict: bool = True) -> object | None:
    try:
        value: object = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value


def _load_repaired(text: str) -> object | None:
    """Parse `text` as lenient JSON, without trailing commas, or as a Python literal."""
    if not text:
        return None
    without_commas = _TOKEN.sub(lambda token: "" if token["comma"] else token[0], text)
    for candidate in (text, without_commas):
        value = _load(candidate, strict=False)
        if value is not None:
            return value
    return _evaluate_literal(without_commas)


def _cut_to_object(text: str) -> str:
    """Return the text from the first opening to the last closing brace, or nothing."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else ""


def _evaluate_literal(text: str) -> object | None:
    if len(text) > MAX_LITERAL_CHARACTERS or _depth(text) > MAX_DEPTH:
        return None
    source = _TOKEN.sub(lambda token: _PYTHON_WORDS.get(token["word"] or "", token[0]), text)
    with warnings.catch_warnings():
        # An escape that Python does not know ('\d') warns, and is read as intended.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            value: object = ast.literal_eval(source)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
    return value


def _depth(text: str) -> int:
    """Return the depth of nesting; brackets in strings count too, so this is an upper bound."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest
