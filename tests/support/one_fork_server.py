"""One fork server for all tests and the processes that they start: torch is imported once.

The standard library's fork server belongs to one process. Processes of the tests borrow it: every
interpreter that finds `PLACE` in its environment connects to it (tests/sitecustomize.py), and the
workers of Ray are forked by it, too.
"""

import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from auctune.engine.runtime.local import start_fork_server

T = TypeVar("T")
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


def in_another_process(function: Callable[..., T], *arguments: object) -> T:
    """Return what a function of a module answers in a process of its own."""
    context = get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments))
    process.start()
    # Else the end of the process without an answer would go unnoticed.
    sender.close()
    with receiver:
        answer: T = receiver.recv()
    process.join()
    return answer


def is_loaded(module: str) -> bool:
    """Whether this process has imported a module."""
    return module in sys.modules


def _answer(sender: Connection, function: Callable[..., object], arguments: list[object]) -> None:
    sender.send(function(*arguments))
