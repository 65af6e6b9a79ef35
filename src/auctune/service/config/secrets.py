"""Secrets that settings refer to: in the environment or in a file, never in the settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from auctune.domain import InputError


def require_exactly_one(**keys: object) -> None:
    """Check that exactly one of several keys is given, which says where a secret is.

    Raises:
        InputError: naming the keys, if none or more than one is given.
    """
    given = [name for name, value in keys.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) + " are given" if given else "none is given"
        raise InputError(" or ".join(keys), found, "one of them")


def read_secret(
    place: str,
    variable: str | None,
    file: str | None,
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Return the text of a secret, stripped.

    Args:
        place: of the table that names the secret, for errors; they never show the secret.
        variable: environment variable that holds it; or
        file: path of a file that holds it.
        environment: variables to read from.

    Raises:
        InputError: if it is missing or empty.
    """
    if variable is not None:
        where, text = f"{place}.secret_variable", environment.get(variable, "")
        expected = f"{variable} in the environment, with the secret"
    else:
        assert file is not None
        where, expected = f"{place}.secret_file", f"a secret in {file}"
        try:
            text = Path(file).read_text()
        except (OSError, UnicodeDecodeError):
            raise InputError(where, "cannot be read", expected) from None
    if not text.strip():
        raise InputError(where, "is not set" if variable else "is empty", expected)
    return text.strip()
