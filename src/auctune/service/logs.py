"""Logs: one JSON object a line, without secrets, in a file of the data folder.

What somebody should see is on standard error too, in a line. The file is turned over before it
grows without end. A line that cannot be written is lost, and nobody fails for it: a disk that is
full would else end the very thread that is to say so.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict

NAME = "service.log"
KEPT = 4
_LONGEST = 64 * 1024 * 1024
_SECRET = ("authorization", "secret", "key", "token", "password", "body")
_SEEN = ("warning", "error", "critical")
_NO_FACTS = ("event", "level", "timestamp", "exception")


@contextmanager
def logs_in(folder: Path, longest: int = _LONGEST) -> Iterator[None]:
    """Have all of structlog's loggers write so, until left.

    Args:
        folder: of the file; made if it is not there.
        longest: bytes after which the file is put aside; the last four are kept.

    Raises:
        OSError: if it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = _TurnedOver(folder / NAME, longest)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            hide_secrets,
            _show,
            _to_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, file)),
        cache_logger_on_first_use=True,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
        file.close()


def hide_secrets(_logger: object, _method: str, entry: EventDict) -> EventDict:
    """What is named like a secret is not written, whatever it is."""
    for name in entry:
        if name in _SECRET:
            entry[name] = "***"
    return entry


class _TurnedOver:
    """A file to write lines to, of limited length. Its caller writes one at a time.

    It is none of the logging module's: whoever configures that closes all handlers there are.
    """

    def __init__(self, path: Path, longest: int) -> None:
        self._path = path
        self._longest = longest
        self._file = _open(path)

    def write(self, text: str) -> int:
        """Write at the end, if there is room."""
        with suppress(OSError):
            if self._file.closed:
                # It could not be turned over when it was to be.
                self._file = _open(self._path)
            elif self._file.tell() > self._longest:
                self._turn_over()
            self._file.write(text.encode())
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """End it; no more is written."""
        with suppress(OSError):
            self._file.close()

    def _turn_over(self) -> None:
        self._file.close()
        old = [self._path.with_name(f"{self._path.name}.{number}") for number in range(1, KEPT)]
        names = [self._path, *old]
        for source, target in reversed(list(pairwise(names))):
            if source.exists():
                source.replace(target)
        self._file = _open(self._path)


def _open(path: Path) -> FileIO:
    # Without a buffer: what a full disk has no room for is lost at once, and not kept for the end.
    return path.open("ab", buffering=0)


def _to_json(_logger: object, _method: str, entry: EventDict) -> str:
    return orjson.dumps(entry, default=str).decode()


def _show(_logger: object, _method: str, entry: EventDict) -> EventDict:
    """A line on standard error for what somebody should see."""
    if entry["level"] in _SEEN:
        facts = "".join(
            f" {name}={value}" for name, value in entry.items() if name not in _NO_FACTS
        )
        with suppress(OSError):
            print(f"{entry['level']}: {entry['event']}{facts}", file=sys.stderr, flush=True)
    return entry
