"""Idempotency keys: a repeated request gets the first one's answer, never a second job."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine, select

from auctune.domain import InputError
from auctune.service.storage import tables


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """By what a request that is made again is known.

    Attributes:
        key: id of the key that made it.
        token: what its maker called it, or a digest of its body.
        digest: of its body.
    """

    key: str
    token: str
    digest: str


def idempotency_record(reply: IdempotencyKey | None) -> dict[str, str] | None:
    """The same as plain values."""
    return (
        None if reply is None else {"key": reply.key, "token": reply.token, "digest": reply.digest}
    )


# The store of idempotency keys.
#
# A request may carry an idempotency key, which counts for a day. Without one, a body that a client
# says it tries again (`x-stainless-retry-count` above 0) within ten minutes is taken for the same.

BODY_SECONDS = 600.0
KEY_SECONDS = 86_400.0
_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class _Stored:
    digest: str
    job: "asyncio.Future[str]"
    at: float


class IdempotencyStore:
    """What requests were answered.

    Args:
        reader: of the store.
        now: tells unix time.
    """

    def __init__(self, reader: Engine, now: Callable[[], float]) -> None:
        self._reader = reader
        self._now = now
        self._recent: OrderedDict[tuple[str, str], _Stored] = OrderedDict()

    def key_for(self, key: str, idempotency_key: str | None, body: bytes) -> IdempotencyKey:
        """By what a request is known."""
        digest = hashlib.sha256(body).hexdigest()
        token = f"body:{digest}" if idempotency_key is None else f"key:{idempotency_key}"
        return IdempotencyKey(key, token, digest)

    async def find(self, reply: IdempotencyKey, *, is_retry: bool) -> str | None:
        """The job of the same request made before; none: it is the first.

        Raises:
            InputError: if its idempotency key was used for another body.
            Exception: as the first one, if it is under way and fails.
        """
        by_key = reply.token.startswith("key:")
        if not (by_key or is_retry):
            return None
        answer = self._under_way(reply, by_key=by_key)
        if answer is None:
            found = await asyncio.to_thread(self._stored, reply)
            if found is not None and self._is_fresh(found[2], by_key=by_key):
                _check_body(found[0], reply)
                return found[1]
            # The same may have been begun while the database was asked.
            answer = self._under_way(reply, by_key=by_key)
        if answer is None:
            return None
        _check_body(answer.digest, reply)
        return await asyncio.shield(answer.job)

    def start(self, reply: IdempotencyKey) -> "asyncio.Future[str]":
        """Note a request that is being answered; the job's id is to be set, or the failure.

        To be called at once when `earlier` found nothing: whoever comes next finds this.
        """
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Nobody may ever ask for it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._recent[(reply.key, reply.token)] = _Stored(reply.digest, future, self._now())
        while len(self._recent) > _KEPT:
            self._recent.popitem(last=False)
        return future

    def discard(self, reply: IdempotencyKey) -> None:
        """The request failed: it may be made again."""
        self._recent.pop((reply.key, reply.token), None)

    def _under_way(self, reply: IdempotencyKey, *, by_key: bool) -> _Stored | None:
        answer = self._recent.get((reply.key, reply.token))
        return answer if answer is not None and self._is_fresh(answer.at, by_key=by_key) else None

    def _is_fresh(self, at: float, *, by_key: bool) -> bool:
        return self._now() - at < (KEY_SECONDS if by_key else BODY_SECONDS)

    def _stored(self, reply: IdempotencyKey) -> tuple[str, str, float] | None:
        table = tables.replies
        chosen = select(table.c.digest, table.c.job, table.c.at).where(
            table.c.key_id == reply.key, table.c.token == reply.token
        )
        with self._reader.connect() as connection:
            row = connection.execute(chosen).first()
        return None if row is None else (row.digest, row.job, row.at)


def _check_body(digest: str, reply: IdempotencyKey) -> None:
    if digest != reply.digest:
        raise InputError(
            "Idempotency-Key", "was used for another request", "a new key for a new request"
        )
