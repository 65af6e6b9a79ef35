"""Errors of requests to a service."""

from collections.abc import Mapping
from typing import Any

from auctune.domain.errors import AuctuneError


class ServiceError(AuctuneError):
    """The service answered with an error.

    Attributes:
        status: HTTP status.
        code: machine-readable code, or `None`.
        extra: further fields of the answer, such as a new quote.
    """

    def __init__(
        self,
        message: str,
        status: int,
        code: str | None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.extra = extra or {}


class UnreachableError(AuctuneError):
    """The service does not answer, or the connection broke."""
