"""The release of Python."""

import platform
import sys
from collections.abc import Iterator

from auctune.service.doctor.finding import Finding, ok, wrong
from auctune.service.doctor.installation import Installation

OLDEST = (3, 11)


def look(at: Installation) -> Iterator[Finding]:
    """Whether this interpreter is new enough."""
    yield judged(sys.version_info[:2], f"{platform.python_version()} at {sys.executable}")


def judged(version: tuple[int, int], said: str) -> Finding:
    """What a release is worth."""
    if version >= OLDEST:
        return ok("python", said)
    oldest = ".".join(map(str, OLDEST))
    return wrong("python", said, f"Python {oldest} or later: make setup PYTHON=python{oldest}")
