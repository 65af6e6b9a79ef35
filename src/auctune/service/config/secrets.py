"""Secrets that settings refer to: in the environment or in a file, never in the settings."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from auctune.domain import InputError

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
