"""JSON files: each key once in an object, no number infinite; figures and lines as text."""

import json
from pathlib import Path
from typing import Any, TextIO

from auctune.domain import InputError


def read_json(path: Path, expected: str) -> Any:
    """Return what a JSON file holds, each key once in an object and no number infinite.

    Args:
        path: the file.
        expected: what errors say that it should be.

    Raises:
        InputError: naming what is wrong with the file as a whole.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except OSError as error:
        raise InputError("the file", f"cannot be read ({error.strerror})", expected) from None
    except UnicodeDecodeError:
        raise InputError("the file", "is not UTF-8 text", expected) from None
    except json.JSONDecodeError as error:
        found = f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise InputError("the file", found, expected) from None
    except RecursionError:
        raise InputError("the file", "is nested too deeply", expected) from None
    except InputError:
        raise
    except ValueError:  # a number of thousands of digits
        raise InputError("the file", "holds a number out of range", expected) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError("the file", f"has the key {twice!r} twice in one object", "each key once")
    return made


def _refuse_constant(name: str) -> float:
    raise InputError("the file", f"holds {name}", "finite JSON numbers")


def write_json(figures: Any, file: TextIO) -> None:
    """Write figures for people and programs to read."""
    json.dump(figures, file, indent=2, allow_nan=False)
    file.write("\n")


def write_line(data: Any, file: TextIO) -> None:
    """Write a value as one line."""
    json.dump(data, file, ensure_ascii=False, allow_nan=False)
    file.write("\n")
