"""How long tests wait for what has to come: no test fails because the machine is slow or busy."""

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_SECONDS = 600.0
WAIT_MS = 1000.0 * WAIT_SECONDS

T = TypeVar("T")


def poll(look: Callable[[], T], called: str = "what has to come") -> T:
    """Look again and again until it is so; what was seen then."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited too long for {called}"
        time.sleep(0.05)
    return seen
