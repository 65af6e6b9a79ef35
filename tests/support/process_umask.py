"""The rights that this process takes from its new files."""

import os


def umask() -> int:
    """Return it; no call of the system only reads it."""
    value = os.umask(0o077)
    os.umask(value)
    return value
