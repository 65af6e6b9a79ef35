"""Broken JSON that can be mended without guessing at its content.

Mended: control characters in strings, stray text around the object, trailing commas, an object
encoded twice, and Python literals (single quotes, True, None), also mixed with JSON's words. Not
mended: an object that is cut off, since what was lost cannot be known, and training on half an
answer teaches to stop there.
"""

import ast
import json
import re
import warnings
from dataclasses import dataclass

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
class Parsed:
    """A value read from one row, and whether the row had to be mended for it."""

    value: object
    mended: bool


def parse_or_mend(text: str) -> Parsed | None:
    """The JSON value in `text`, mended if need be; none if it cannot be had honestly."""
    text = text.strip().removeprefix("\ufeff").strip()
    value = _load(text)
    if isinstance(value, str) and isinstance(inner := _load(value), dict):
        return Parsed(inner, mended=True)
    if value is not None:
        return Parsed(value, mended=False)
    for candidate in dict.fromkeys((text, _cut_to_object(text))):
        value = _load_mended(candidate)
        if isinstance(value, dict | str):
            return Parsed(value, mended=True)
    return None


def _load(text: str, *, strict: bool = True) -> object | None:
    try:
        value: object = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value


def _load_mended(text: str) -> object | None:
    """`text` as JSON with loose strings, without trailing commas, or as a Python literal."""
    if not text:
        return None
    without_commas = _TOKEN.sub(lambda token: "" if token["comma"] else token[0], text)
    for candidate in (text, without_commas):
        value = _load(candidate, strict=False)
        if value is not None:
            return value
    return _evaluate_literal(without_commas)


def _cut_to_object(text: str) -> str:
    """From the first opening to the last closing brace; empty without such."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else ""


def _evaluate_literal(text: str) -> object | None:
    if len(text) > MAX_LITERAL_CHARACTERS or _depth(text) > MAX_DEPTH:
        return None
    source = _TOKEN.sub(lambda token: _PYTHON_WORDS.get(token["word"] or "", token[0]), text)
    with warnings.catch_warnings():
        # An escape that Python does not know ('\d') warns; its reading is the wanted one.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            value: object = ast.literal_eval(source)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
    return value


def _depth(text: str) -> int:
    """Brackets open at once, at most (those in strings count too: an upper bound)."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest
