"""Lock of a folder that belongs to one process, with its workers.

The lock is the kernel's, on an open file: it ends with the last process that has the file open,
however that process ends. Worker processes inherit it, so that no run starts where a worker of a
killed one may still write. The file holds the id of the process that took it: while only its
workers are left, the next one waits for them, as they notice at once that their parent is gone.
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
"""Lock file in a service's data folder that its worker processes inherit."""
DATABASE_LOCK = "auctune.db.lock"
"""Lock file of the SQLite database in a data folder, for the process that writes it."""
RUN_LOCK = ".lock"
"""Lock file in the folder of a run."""

# Workers end within milliseconds; this is for a busy machine.
_WORKERS_END_SECONDS = 20.0
_POLL_SECONDS = 0.05


@contextmanager
def lock_file(path: Path, place: str) -> Iterator[int]:
    """Lock a file for this process and its workers; yield the descriptor that they inherit.

    Args:
        path: lock file, created if it does not exist.
        place: what it locks, for errors.

    Raises:
        InputError: if another process holds it.
    """
    with path.open("a+") as file:
        if not _acquire(file):
            raise InputError(place, "is in use by another process", "a folder that is free")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _acquire(file: TextIO) -> bool:
    """Take the lock; wait only for workers whose parent is gone."""
    deadline = time.monotonic() + _WORKERS_END_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            if _is_alive(file.read()) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _is_alive(pid: str) -> bool:
    # A process that has just taken the lock has not written its id yet.
    if not pid:
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
