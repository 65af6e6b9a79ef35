"""Where a secret of the settings is: in the environment, or in a file; never in the settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from auctune.domain import InputError


def check_one_source(**sources: object) -> None:
    """That exactly one of several keys says where a secret is.

    Raises:
        InputError: naming the keys, if none or more than one does.
    """
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) + " are given" if given else "none is given"
        raise InputError(" or ".join(sources), found, "one of them")


def read_secret(
    place: str,
    variable: str | None,
    file: str | None,
    environment: Mapping[str, str] = os.environ,
) -> str:
    """The text of a secret, without blanks around it.

    Args:
        place: of the table that names it, for errors, which never show it.
        variable: of the environment; or
        file: that holds it.
        environment: to look in.

    Raises:
        InputError: if it is not there, or is empty.
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
