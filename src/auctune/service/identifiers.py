"""Patterns of names and identifiers, and random ones: a prefix, and 24 letters and digits."""

import secrets
import string

JOB_ID = r"ftjob-[A-Za-z0-9]{1,64}"
FILE_ID = r"file-[A-Za-z0-9]{1,64}"
ENTRY_ID = r"entry-\d{1,18}"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Pattern of the names of zones, nodes, users, teams and vendors."""
_LETTERS = string.ascii_letters + string.digits
_LENGTH = 24
_COUNT = len(_LETTERS) ** _LENGTH


def new_id(prefix: str) -> str:
    """Return a new identifier, such as ftjob-3fK..., which cannot be guessed."""
    # One draw: each is a system call, in which other threads take the interpreter.
    number, letters = secrets.randbelow(_COUNT), []
    for _ in range(_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return f"{prefix}-{''.join(letters)}"
