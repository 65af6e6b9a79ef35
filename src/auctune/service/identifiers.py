"""Identifiers: a prefix that says what it is, and 24 random letters and digits."""

import secrets
import string

_LETTERS = string.ascii_letters + string.digits
_LENGTH = 24


def new_id(prefix: str) -> str:
    """A new identifier, such as ftjob-3fK...; nobody can guess it."""
    return prefix + "-" + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
