"""Structured logs: one JSON object per line, without secrets, in a rotated file.

Warnings and errors go to standard error too. A line that cannot be written is dropped: a full disk
must not end the thread that logs it.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict

FILE_NAME = "service.log"
BACKUP_COUNT = 3
MAX_BYTES = 64 * 1024 * 1024

_SECRETS = ("authorization", "secret", "key", "token", "password", "body")
_ECHOED_LEVELS = ("warning", "error", "critical")
_NOT_ECHOED = ("event", "level", "timestamp", "exception")


@contextmanager
def configure(folder: Path, max_bytes: int = MAX_BYTES) -> Iterator[None]:
    """Have all structlog loggers write to a log file until the context ends.

    The file is rotated when it has `max_bytes`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = RotatingFile(folder / FILE_NAME, max_bytes)
    before = structlog.get_config()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            _echo,
            _to_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, file)),
        # A module's logger lives longer than this context: it may not keep its closed file.
        cache_logger_on_first_use=False,
    )
    uvicorn, handler = logging.getLogger("uvicorn"), _ToStructlog()
    uvicorn.addHandler(handler)
    uvicorn.propagate = False
    try:
        yield
    finally:
        uvicorn.removeHandler(handler)
        uvicorn.propagate = True
        structlog.configure(**before)
        file.close()


class MinimumLevel:
    """Has loggers drop what is below a level while any of its blocks is open.

    Blocks of one instance may end in another order than they began; those of two must nest.
    """

    def __init__(self, level: int) -> None:
        self._level = level
        self._num_open = 0
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        if self._num_open == 0:
            self._before = structlog.get_config()
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(self._level))
        self._num_open += 1

    def __exit__(self, *_: object) -> None:
        self._num_open -= 1
        if self._num_open == 0:
            structlog.configure(**self._before)


class _ToStructlog(logging.Handler):
    """Writes the records of a library to the log of the service."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage().strip(), exc_info=record.exc_info)


def redact(_logger: object, _method: str, entry: EventDict) -> EventDict:
    """Replace the values of fields with a secret's name."""
    for name in entry:
        if name in _SECRETS:
            entry[name] = "***"
    return entry


class RotatingFile(RotatingFileHandler):
    """A private, rotated file that structlog writes lines to.

    Lines are written directly: log records would only be formatted again. `logging.config` closes
    all handlers, so a file that was closed is opened again.
    """

    # Of the file: to ask for it takes a system call a line.
    _num_bytes = 0

    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=BACKUP_COUNT)

    def write(self, text: str) -> int:
        with suppress(OSError):
            if self.stream is not None and self._num_bytes > self.maxBytes:
                self.doRollover()
            if self.stream is None:
                self.stream = self._open()
            self.stream.write(text)
            self._num_bytes += len(text.encode())
        return len(text)

    def doRollover(self) -> None:  # noqa: N802 - the name of the base class
        # A file that cannot be rotated goes on growing.
        with suppress(OSError):
            super().doRollover()

    def close(self) -> None:
        with suppress(OSError):
            super().close()

    def _open(self) -> TextIOWrapper:
        # Unbuffered: a line that does not fit on a full disk is dropped at once.
        file = open(self.baseFilename, "ab", buffering=0, opener=_open_private)  # noqa: SIM115
        self._num_bytes = file.tell()
        return TextIOWrapper(file, "utf-8", write_through=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _to_json(_logger: object, _method: str, entry: EventDict) -> str:
    return orjson.dumps(entry, default=str).decode()


def _echo(_logger: object, _method: str, entry: EventDict) -> EventDict:
    if entry["level"] in _ECHOED_LEVELS:
        fields = "".join(
            f" {name}={value}" for name, value in entry.items() if name not in _NOT_ECHOED
        )
        with suppress(OSError):
            print(f"{entry['level']}: {entry['event']}{fields}", file=sys.stderr, flush=True)
    return entry
