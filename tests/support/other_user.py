"""A block of a test that runs as a user with no rights: root may write everywhere."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_rights() -> Iterator[None]:
    """As nobody if this is root; else as it is."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
