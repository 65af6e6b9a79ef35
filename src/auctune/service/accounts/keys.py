"""API keys. Only a key's SHA-256 is kept: who reads the database cannot use it."""

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

from auctune.domain import InputError

_PREFIX = "sk-"
_SHOWN = 10
_LEAST = 32


class Role(StrEnum):
    """What a key is for."""

    USER = "user"
    """Brings jobs; sees its own only."""
    OPERATOR = "operator"
    """Runs the market; sees all of it."""
    VENDOR = "vendor"
    """Sees its own orders."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request.

    Attributes:
        key: id of the key.
        user: id of the user whose it is.
        team: the user's team, if it has one.
        role: of the key.
    """

    key: str
    user: str
    team: str | None
    role: Role

    @property
    def is_operator(self) -> bool:
        """Whether it may see what belongs to others."""
        return self.role is Role.OPERATOR


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made.

    Attributes:
        secret: what its owner sends; shown once.
        hash: what is kept.
        prefix: the beginning, by which people tell keys apart.
    """

    secret: str
    hash: str
    prefix: str


def generate_key() -> NewKey:
    """A new key: 240 random bits."""
    secret = _PREFIX + secrets.token_urlsafe(30)
    return NewKey(secret, hash_key(secret), secret[:_SHOWN])


@dataclass(frozen=True, slots=True)
class HashedKey:
    """A key that somebody else made.

    Attributes:
        hash: what is kept.
        prefix: its beginning; empty if that is not known.
    """

    hash: str
    prefix: str


def hash_existing_key(secret: str, place: str) -> HashedKey:
    """What is kept of a key that its owner knows already.

    Raises:
        InputError: if it is so short that it could be guessed.
    """
    if len(secret) < _LEAST:
        expected = f"a key of {_LEAST} random characters or more"
        raise InputError(place, f"has a key of {len(secret)} characters", expected)
    return HashedKey(hash_key(secret), secret[:_SHOWN])


def hash_key(secret: str) -> str:
    """What is kept of a key. It is random, so a plain hash cannot be turned back."""
    return hashlib.sha256(secret.encode()).hexdigest()
