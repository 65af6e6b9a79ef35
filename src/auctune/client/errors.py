"""What can go wrong between a client and a service."""

from collections.abc import Mapping
from typing import Any

from auctune.domain.errors import AuctuneError


class ServiceError(AuctuneError):
    """The service answered, and the answer is an error.

    Attributes:
        status: of HTTP.
        code: for programs; none: it gave none.
        beside: what the answer says beside the error, such as a new quote.
    """

    def __init__(
        self,
        message: str,
        status: int,
        code: str | None,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.beside = beside or {}


class UnreachableError(AuctuneError):
    """Nobody answers, or the answer broke off."""
