"""Who is signed in: random ids of sessions, kept as hashes, in memory alone.

A session is opened with an API key, which is then forgotten; it ends with the key, with the
service, when its owner signs out, and some hours after it began.
"""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from auctune.domain import InputError
from auctune.service.accounts.keys import Principal, hash_key


@dataclass(frozen=True, slots=True)
class SessionsParams:
    """How long sessions last, and how many there are.

    Attributes:
        seconds: from sign-in to the end.
        of_a_key: open at once by one key; the oldest makes room.
    """

    seconds: float = 12 * 3600.0
    of_a_key: int = 20

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InputError("seconds", f"{self.seconds!r}", "a number > 0")
        if self.of_a_key < 1:
            raise InputError("of_a_key", f"{self.of_a_key}", "a whole number >= 1")


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that is signed in.

    Attributes:
        key: id of the API key that opened it.
        token: that each form of its pages carries.
        until: unix time of its end.
    """

    key: str
    token: str
    until: float

    def verify_csrf(self, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class KeyHolders(Protocol):
    """Knows keys."""

    def principal_of_key(self, key: str) -> Principal | None:
        """Whose key this is, by its id; none: nobody's, or it was revoked."""
        ...


class Sessions:
    """Open sessions; on one loop.

    Args:
        directory: knows keys.
        now: tells unix time.
        params: how long, and how many.
    """

    def __init__(
        self, directory: KeyHolders, now: Callable[[], float], params: SessionsParams | None = None
    ) -> None:
        self._directory = directory
        self._now = now
        self._params = params or SessionsParams()
        # The oldest first.
        self._open: dict[str, Session] = {}

    def create(self, who: Principal) -> str:
        """Open a session; its id, which only the browser keeps."""
        now = self._now()
        self._open = {name: one for name, one in self._open.items() if one.until > now}
        held = [name for name, one in self._open.items() if one.key == who.key]
        for name in held[: max(0, len(held) + 1 - self._params.of_a_key)]:
            del self._open[name]
        secret = secrets.token_urlsafe(32)
        session = Session(who.key, secrets.token_urlsafe(32), now + self._params.seconds)
        self._open[hash_key(secret)] = session
        return secret

    def get(self, secret: str) -> tuple[Session, Principal] | None:
        """The session with this id, and who it is; none: it is over, or there never was one."""
        name = hash_key(secret)
        session = self._open.get(name)
        if session is None:
            return None
        who = self._directory.principal_of_key(session.key)
        if who is None or session.until <= self._now():
            del self._open[name]
            return None
        return session, who

    def delete(self, secret: str) -> None:
        """Close a session, if it is open."""
        self._open.pop(hash_key(secret), None)
