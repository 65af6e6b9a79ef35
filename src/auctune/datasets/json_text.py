"""JSON of people: every key once, and no deeper than others can write it again."""

import json
import sys
from typing import Any

# Nesting that pydantic and chat templates can write again.
_MAX_DEPTH = 200


class JsonTextError(ValueError):
    """A text is no JSON that is read here; its message says why."""


class RepeatedKeyError(JsonTextError):
    """An object has a key twice: which of its values is meant is not known."""


def load_json(text: str) -> Any:
    """Return the value that a JSON text stands for.

    Raises:
        JsonTextError: if it is none, or one that is not read here.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
        _check_depth(value, text)
    except json.JSONDecodeError as error:
        raise JsonTextError(f"is not JSON ({error})") from None
    except RecursionError:
        raise JsonTextError("is nested too deeply") from None
    except JsonTextError:
        raise
    except ValueError:
        # Python converts no integer of more digits.
        limit = sys.get_int_max_str_digits()
        raise JsonTextError(f"has a number of more than {limit} digits") from None
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(f"the key {key!r} appears twice")
            seen.add(key)
    return made


def _check_depth(value: Any, text: str) -> None:
    """Raise a `RecursionError` for JSON that others cannot write again, given as a text too."""
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    raise RecursionError
