"""Logs: one JSON object a line on standard error, without secrets."""

import logging
import sys

import orjson
import structlog

_SECRET = ("authorization", "secret", "key", "token", "password", "body")


def configure_logs(level: int = logging.INFO) -> None:
    """Have all of structlog's loggers write so.

    Args:
        level: below which nothing is written.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            hide_secrets,
            structlog.processors.JSONRenderer(serializer=orjson.dumps, default=str),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )


def hide_secrets(
    _logger: object, _method: str, entry: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """What is named like a secret is not written, whatever it is."""
    for name in entry:
        if name in _SECRET:
            entry[name] = "***"
    return entry
