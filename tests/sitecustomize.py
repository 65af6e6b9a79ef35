"""Runs first in every interpreter that tests start: they share one fork server.

See support/one_fork_server.py; nothing of auctune is imported here, which would take long.
"""

import os
from typing import Any


def borrow_fork_server(place: str) -> None:
    """Have this process use a fork server that another one has started."""
    from multiprocessing import forkserver, resource_tracker

    address, _, key = place.rpartition(":")
    server: Any = forkserver._forkserver
    server._forkserver_address = address
    server._forkserver_authkey = bytes.fromhex(key) or None
    # The server does not depend on this process, which has no resources to track.
    server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = os.open(os.devnull, os.O_WRONLY)
    server.ensure_running = forkserver.ensure_running = lambda: None


if (_place := os.environ.get("AUCTUNE_TESTS_FORK_SERVER")) is not None:
    borrow_fork_server(_place)
