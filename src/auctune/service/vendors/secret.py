"""A secret that two parties share: it signs texts, and is never shown."""

import hmac
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from auctune.domain import InputError

MIN_CHARACTERS = 32


class Secret:
    """Signs by HMAC-SHA256 (RFC 2104).

    Args:
        value: at least 32 characters, so that it cannot be guessed from a signature.
        place: names it in the error, which does not show it.

    Raises:
        InputError: if it is too short.
    """

    __slots__ = ("_key",)

    def __init__(self, value: str, place: str = "secret") -> None:
        if len(value) < MIN_CHARACTERS:
            raise InputError(
                place, f"has {len(value)} characters", f"{MIN_CHARACTERS} random characters or more"
            )
        self._key = value.encode()

    def __repr__(self) -> str:
        return "Secret(...)"

    def sign(self, text: str) -> str:
        """The text's signature: 64 hexadecimal digits."""
        return hmac.new(self._key, text.encode(), sha256).hexdigest()

    def matches(self, text: str, signature: str) -> bool:
        """Whether this secret made the signature, compared in constant time."""
        return hmac.compare_digest(self.sign(text).encode(), signature.encode())


def read_secret_file(path: Path) -> Secret:
    """The secret that a file holds; blanks around it do not count.

    Raises:
        InputError: if the file cannot be read, or the secret is too short.
    """
    try:
        return Secret(path.read_text().strip(), str(path))
    except (OSError, UnicodeDecodeError):
        raise InputError(str(path), "cannot be read", "a file that holds a secret") from None


def read_secret_variable(name: str, environment: Mapping[str, str] = os.environ) -> Secret:
    """The secret that an environment variable holds.

    Raises:
        InputError: if there is no such variable, or the secret is too short.
    """
    value = environment.get(name)
    if value is None:
        raise InputError(name, "is not set", "an environment variable that holds a secret")
    return Secret(value.strip(), name)
