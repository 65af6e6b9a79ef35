"""The service's log: JSON lines in its data folder; what somebody should see, on stderr too."""

import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

_NAME = "service.log"
_SEEN = ("warning", "error", "critical")


def log_to(folder: Path) -> None:
    """Write all logs to a file in a folder, made if it is not there.

    Raises:
        OSError: if it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Open as long as this process lives.
    file = (folder / _NAME).open("a", buffering=1, encoding="utf-8")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _show,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(file),
    )


def _show(_logger: object, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A line on standard error for what somebody should see."""
    if level in _SEEN:
        told = ("event", "level", "timestamp", "exception")
        facts = "".join(f" {name}={value}" for name, value in event.items() if name not in told)
        print(f"{event['level']}: {event['event']}{facts}", file=sys.stderr, flush=True)
    return event
