"""One market at a time runs in a folder, its node processes included.

The lock is the kernel's, on an open file: it ends with the last process that has the file open,
however that process ends. Node processes inherit it, so that no market begins where a node of a
killed one may still write. The file holds the id of the market's process: while only nodes are left
one waits for them, as they notice at once that their market is gone.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from auctune.domain import InputError

NODES_LOCK = "nodes.lock"
"""Its file in a service's data folder."""

# Nodes end within milliseconds; this is for a busy machine.
_NODES_END_SECONDS = 20.0
_POLL_SECONDS = 0.05


@contextmanager
def hold(path: Path, place: str) -> Iterator[int]:
    """Hold the lock `path`; yields the descriptor that node processes inherit.

    Args:
        path: the lock's file, made if it is not there.
        place: what it locks, as errors call it.

    Raises:
        InputError: if another market holds it.
    """
    with path.open("a+") as lock:
        if not _acquire(lock):
            raise InputError(place, "is in use by another process", "a folder that is free")
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock.fileno()


def _acquire(lock: TextIO) -> bool:
    """Take the lock; waits only for nodes whose market is gone."""
    deadline = time.monotonic() + _NODES_END_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            if _is_alive(lock.read()) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _is_alive(pid: str) -> bool:
    # Whoever has just taken the lock has not yet written its id.
    if not pid:
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
