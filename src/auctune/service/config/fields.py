"""Types of fields and checks that several tables of auctune.toml share."""

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo

from auctune.domain import InputError, parse_money

MAX_NUMBER = 10**9
_DAY_SECONDS = 86_400

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Amount = Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]
Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
NonNegative = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


def _resolve(path: str, info: ValidationInfo) -> str:
    return path if info.context is None else str(settings_folder(info.context) / path)


def settings_folder(context: object) -> Path:
    """Return the folder of the settings file from a validation context; without one, `.`."""
    assert context is None or isinstance(context, Path)
    return context or Path()


RelativePath = Annotated[str, AfterValidator(_resolve)]
"""Path relative to the folder of the settings file, which is the validation context."""


def check_unique(table: str, key: str, names: Iterable[str], taken: Iterable[str] = ()) -> None:
    """Check that the entries of a table have different names, and none of those in `taken`.

    `table` and `key` name them in errors.
    """
    seen = set(taken)
    for index, name in enumerate(names):
        if name in seen:
            place = f"{table}[{index}].{key}"
            raise InputError(place, f"duplicate {key} {name!r}", f"unique {key}s")
        seen.add(name)


def slots_per_day(slot_seconds: float, least: int, most: int) -> int:
    """Return the number of slots of a day, the default horizon of a zone, within limits."""
    return max(least, min(most, round(_DAY_SECONDS / slot_seconds)))
