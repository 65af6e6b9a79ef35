"""How long tests wait for what has to come: no test fails because the machine is slow or busy."""

import time
from collections.abc import Callable

WAIT_SECONDS = 600.0
WAIT_MS = 1000.0 * WAIT_SECONDS


def poll(is_so: Callable[[], bool], called: str = "what has to come") -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {called}"
        time.sleep(0.05)
