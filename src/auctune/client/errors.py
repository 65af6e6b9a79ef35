"""What can go wrong between a client and a service."""

from auctune.domain.errors import AuctuneError


class ServiceError(AuctuneError):
    """The service answered, and the answer is an error.

    Attributes:
        status: of HTTP.
        code: for programs; none: it gave none.
    """

    def __init__(self, message: str, status: int, code: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class UnreachableError(AuctuneError):
    """Nobody answers, or the answer broke off."""
