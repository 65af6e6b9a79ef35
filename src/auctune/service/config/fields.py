"""Types of fields and checks that several tables of auctune.toml share, and secrets.

Secrets are in the environment or in a file, never in the settings, which refer to them.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo

from auctune.domain import InputError, parse_money
from auctune.service.identifiers import NAME

MAX_NUMBER = 10**9
_DAY_SECONDS = 86_400

URL = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?")
Name = Annotated[str, StringConstraints(pattern=NAME)]
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


_OTHERS = 0o077


def require_exactly_one(**keys: object) -> None:
    """Check that exactly one of several keys for a secret is given."""
    given = [name for name, value in keys.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) + " are given" if given else "none is given"
        raise InputError(" or ".join(keys), found, "one of them")


def check_private(place: str, file: Path) -> None:
    """Check that other accounts of the machine cannot read a file with a secret.

    A missing file is an error of its reader. `place` is the key that names the file, for errors.
    """
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return
    if mode & _OTHERS:
        raise InputError(
            place, f"{file} is open to other accounts (mode {mode:o})", f"chmod 600 {file}"
        )


def read_secret(
    place: str,
    variable: str | None,
    file: str | None,
    environment: Mapping[str, str] = os.environ,
    what: str = "secret",
) -> str:
    """Return the text of a secret, stripped; errors never show it.

    Args:
        place: table that names the secret, for errors.
        variable: environment variable that holds it; or
        file: path of a file that holds it.
        environment: variables to read from.
        what: kind of secret, the prefix of both keys.
    """
    if variable is not None:
        where, text = f"{place}.{what}_variable", environment.get(variable, "")
        expected = f"{variable} in the environment, with the {what}"
    else:
        assert file is not None
        where, expected = f"{place}.{what}_file", f"a {what} in {file}"
        try:
            text = Path(file).read_text()
        except (OSError, UnicodeDecodeError):
            raise InputError(where, "cannot be read", expected) from None
    if not text.strip():
        raise InputError(where, "is not set" if variable else "is empty", expected)
    return text.strip()
