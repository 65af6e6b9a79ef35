"""One fork server for all tests and the processes that they start: torch is imported once.

The standard library's fork server belongs to one process. Processes of the tests borrow it: every
interpreter that finds `PLACE` in its environment connects to it (tests/sitecustomize.py).
"""

import os
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from auctune.run.runtime.local import start_fork_server

PLACE = "AUCTUNE_TESTS_FORK_SERVER"

_TESTS = Path(__file__).resolve().parents[1]
# Where the hub's cache would be, whatever home a test gives its processes.
_HUB = _TESTS.parent / ".pytest_cache" / "hub"


def open_fork_server() -> None:
    """For this session; processes of xdist have that of the one that started them."""
    os.environ.setdefault("HF_HOME", str(_HUB))
    start_fork_server()
    if PLACE in os.environ:
        return
    server: Any = forkserver._forkserver
    key = getattr(server, "_forkserver_authkey", None) or b""
    os.environ[PLACE] = f"{server._forkserver_address}:{key.hex()}"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_TESTS), *([before] if before else [])])
