"""TOML files as plain data."""

import tomllib
from pathlib import Path
from typing import Any

from auctune.domain import InputError


def read_toml(path: Path, expected: str) -> dict[str, Any]:
    """Return the tables of a file.

    Args:
        path: the file.
        expected: what errors say that it should be.

    Raises:
        InputError: naming the file, if it cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", expected) from None
    except ValueError as error:
        raise InputError(str(path), f"is not TOML ({error})", expected) from None
