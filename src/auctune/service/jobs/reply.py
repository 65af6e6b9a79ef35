"""By what a request that is made again is known."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """By what a request that is made again is known.

    Attributes:
        key: id of the key that made it.
        token: what its maker called it, or a digest of its body.
        digest: of its body.
    """

    key: str
    token: str
    digest: str


def reply_record(reply: Reply | None) -> dict[str, str] | None:
    """The same as plain values."""
    return (
        None if reply is None else {"key": reply.key, "token": reply.token, "digest": reply.digest}
    )
