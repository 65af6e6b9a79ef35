"""Lock that workers hold while they train, seen by processes that give way to training.

Workers that train on a CPU hold a shared lock on a file in the folder of bases. The operating
system releases it when a worker ends, however it ends.
"""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

_NAME = "training.lock"


class TrainingLock:
    """The lock of the workers that use one folder of bases.

    A folder that cannot be written has no lock: there nothing is ever seen to train.

    Args:
        cache: folder of bases, which need not exist yet.
    """

    def __init__(self, cache: Path) -> None:
        self._path = cache / _NAME

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock for a block, in which this process trains."""
        with self._open() as file:
            if file is not None:
                fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def is_held(self) -> bool:
        """Return whether a process trains."""
        with self._open() as file:
            if file is None:
                return False
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    @contextmanager
    def _open(self) -> Iterator[IO[bytes] | None]:
        """Open the file, and close it again, which releases the lock."""
        with ExitStack() as stack:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(self._path.open("ab"))
            except OSError:
                file = None
            yield file
