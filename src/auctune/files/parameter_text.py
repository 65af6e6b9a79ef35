"""Parsing of parameters that files and the command line write as text.

The fields of a dataclass declare the expected types: int, float, bool, str, `Literal`, or one of
these or `None`.
"""

import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from auctune.domain import InputError

P = TypeVar("P")


def parse_params(kind: type[P], settings: Mapping[str, str]) -> P:
    """Return a dataclass of parameters, each parsed by the type of its field.

    Raises:
        InputError: naming the setting, for an unknown setting or a value of the wrong type.
    """
    hints = get_type_hints(kind)
    for key in settings:
        if key not in hints:
            raise InputError(
                key,
                "is not a setting of this mechanism",
                f"one of {', '.join(hints)}" if hints else "no setting",
            )
    return kind(**{key: _parse(key, text, hints[key]) for key, text in settings.items()})


def parse_label(label: str, place: str, noun: str) -> tuple[str, dict[str, str]]:
    """Return the name and the settings in a text such as `ahap:window=5:sigma=0.6`.

    Args:
        label: the text.
        place: of the text, for errors.
        noun: what the text names, such as `policy`.

    Raises:
        InputError: without a name, or for a setting that is repeated or not KEY=VALUE.
    """
    expected = f"{noun.upper()}[:KEY=VALUE...]"
    name, *texts = label.split(":")
    if not name:
        raise InputError(place, f"{label!r} has no name", expected)
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(place, f"{text!r} in {label!r}", expected)
        if key in settings:
            raise InputError(place, f"{key!r} is repeated in {label!r}", "each key once")
        settings[key] = value
    return name, settings


def _parse(key: str, text: str, hint: Any) -> Any:
    if get_origin(hint) in (types.UnionType, Union):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise InputError(key, repr(text), f"one of {', '.join(get_args(hint))}")
        return text
    if hint not in _PARSERS:
        kinds = ", ".join(kind.__name__ for kind in _PARSERS)
        raise InputError(key, f"is declared as {hint}", f"a setting of type {kinds} or Literal")
    return _PARSERS[hint](key, text)


def _parse_whole(key: str, text: str) -> int:
    # int() also accepts underscores, spaces and non-ASCII digits.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise InputError(key, repr(text), "a whole number")
    return int(text)


def _parse_number(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if "_" in text or text != text.strip() or not math.isfinite(number):
        raise InputError(key, repr(text), "a number")
    return number


def _parse_switch(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InputError(key, repr(text), "true or false")
    return text == "true"


_PARSERS: Mapping[Any, Callable[[str, str], Any]] = {
    int: _parse_whole,
    float: _parse_number,
    bool: _parse_switch,
    str: lambda _key, text: text,
}
