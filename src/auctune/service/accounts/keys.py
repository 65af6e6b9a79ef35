"""API keys. Only their SHA-256 is stored, so a copy of the database does not grant access."""

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

from auctune.domain import InputError

_PREFIX = "sk-"
_SHOWN = 10
_MIN_LENGTH = 32


class Role(StrEnum):
    """Permissions of a key."""

    USER = "user"
    """Submits jobs; sees its own jobs and files only."""
    OPERATOR = "operator"
    """Manages the service; sees everything."""
    VENDOR = "vendor"
    """Sees its own repair orders."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated sender of a request: the key, and the user and team that own it."""

    key: str
    user: str
    team: str | None
    role: Role

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR


@dataclass(frozen=True, slots=True)
class HashedKey:
    """SHA-256 of a key, and its first characters for lists; empty if they are not known."""

    hash: str
    prefix: str


def generate_key() -> tuple[str, HashedKey]:
    """Return a new key of 240 random bits, and what is stored of it."""
    secret = _PREFIX + secrets.token_urlsafe(30)
    return secret, HashedKey(hash_key(secret), secret[:_SHOWN])


def hash_existing_key(secret: str, place: str) -> HashedKey:
    """Return what is stored of a key that the service did not generate; refuse a short one."""
    if len(secret) < _MIN_LENGTH:
        expected = f"a key of {_MIN_LENGTH} random characters or more"
        raise InputError(place, f"has a key of {len(secret)} characters", expected)
    return HashedKey(hash_key(secret), secret[:_SHOWN])


def hash_key(secret: str) -> str:
    """Return the hash of a key. Keys are random, so a plain hash cannot be reversed."""
    return hashlib.sha256(secret.encode()).hexdigest()
