"""Idempotency keys: a repeated request gets the first one's answer, never a second job."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Engine, Row, select

from auctune.domain import InputError
from auctune.service.storage import tables


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Identity of a request, by which a repetition is recognized.

    Attributes:
        key: id of the API key that sent it.
        token: its idempotency key, or the digest of its body.
        digest: digest of its body.
    """

    key: str
    token: str
    digest: str


def idempotency_record(reply: IdempotencyKey | None) -> dict[str, str] | None:
    """Return an idempotency key as plain values, for the event log."""
    return None if reply is None else asdict(reply)


BODY_SECONDS = 600.0
KEY_SECONDS = 86_400.0
_MAX_RECENT = 100_000


@dataclass(frozen=True, slots=True)
class _Recent:
    digest: str
    job: "asyncio.Future[str]"
    at: float


class IdempotencyStore:
    """Jobs of recent requests.

    An idempotency key is valid for a day. Without one, a body that the client marks as a retry
    (`x-stainless-retry-count` above 0) counts as the same request for ten minutes.

    Args:
        reader: engine to read the store.
        now: returns unix time.
    """

    def __init__(self, reader: Engine, now: Callable[[], float]) -> None:
        self._reader = reader
        self._now = now
        self._recent: OrderedDict[tuple[str, str], _Recent] = OrderedDict()

    def key_for(self, key: str, idempotency_key: str | None, body: bytes) -> IdempotencyKey:
        """Return the identity of a request."""
        digest = hashlib.sha256(body).hexdigest()
        token = f"body:{digest}" if idempotency_key is None else f"key:{idempotency_key}"
        return IdempotencyKey(key, token, digest)

    async def find(self, reply: IdempotencyKey, *, is_retry: bool) -> str | None:
        """Return the job of an earlier identical request, or None.

        Raises:
            InputError: if the idempotency key was used with another body.
            Exception: the error of the earlier request, if it is in progress and fails.
        """
        by_key = reply.token.startswith("key:")
        if not (by_key or is_retry):
            return None
        recent = self._find_recent(reply, by_key=by_key)
        if recent is None:
            stored = await asyncio.to_thread(self._find_stored, reply)
            if stored is not None and self._is_fresh(stored.at, by_key=by_key):
                _check_body(stored.digest, reply)
                return str(stored.job)
            # The same request may have arrived during the query.
            recent = self._find_recent(reply, by_key=by_key)
        if recent is None:
            return None
        _check_body(recent.digest, reply)
        return await asyncio.shield(recent.job)

    def start(self, reply: IdempotencyKey) -> "asyncio.Future[str]":
        """Register a request in progress; the caller sets the job's id or the error.

        To be called right after `find` returned None, without an `await` in between.
        """
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Mark an error as retrieved, as no other request may wait for it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._recent[(reply.key, reply.token)] = _Recent(reply.digest, future, self._now())
        while len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        return future

    def discard(self, reply: IdempotencyKey) -> None:
        """Forget a request that failed, so that it can be repeated."""
        self._recent.pop((reply.key, reply.token), None)

    def _find_recent(self, reply: IdempotencyKey, *, by_key: bool) -> _Recent | None:
        recent = self._recent.get((reply.key, reply.token))
        return recent if recent is not None and self._is_fresh(recent.at, by_key=by_key) else None

    def _is_fresh(self, at: float, *, by_key: bool) -> bool:
        return self._now() - at < (KEY_SECONDS if by_key else BODY_SECONDS)

    def _find_stored(self, reply: IdempotencyKey) -> Row[Any, Any, Any] | None:
        table = tables.replies
        chosen = select(table.c.digest, table.c.job, table.c.at).where(
            table.c.key_id == reply.key, table.c.token == reply.token
        )
        with self._reader.connect() as connection:
            return connection.execute(chosen).first()


def _check_body(digest: str, reply: IdempotencyKey) -> None:
    if digest != reply.digest:
        raise InputError(
            "Idempotency-Key", "was used for another request", "a new key for a new request"
        )
