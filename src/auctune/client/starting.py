"""A service that is starting says so in its data folder, as it has no URL yet.

The file says what it is doing, and the kernel's lock on it that somebody still is: what a service
that was killed left means nothing.
"""

import fcntl
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

STARTING_FILE = "starting"


class StartingNote:
    """What a service does before it is open, for whoever looks for it; a context.

    Args:
        data: its folder, which is there; the file is made when there is something to say.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / STARTING_FILE
        self._file: TextIO | None = None
        self._told = ""

    def __enter__(self) -> "StartingNote":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def tell(self, what: str) -> None:
        """It does this now; what another service says that is starting in the folder stays.

        Raises:
            OSError: if the file cannot be written.
        """
        if what == self._told:
            return
        if self._file is None:
            self._file = self._opened()
        if self._file is not None:
            self._told = what
            self._file.seek(0)
            self._file.truncate()
            self._file.write(what)
            self._file.flush()

    def end(self) -> None:
        """It is open, or has failed."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _opened(self) -> TextIO | None:
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file


def read_starting(data: Path) -> str | None:
    """What the service in a folder does before it is open; none: none is starting there."""
    with suppress(OSError, UnicodeDecodeError), (data / STARTING_FILE).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read()
    return None
