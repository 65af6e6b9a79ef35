"""Idempotency keys: a repeated request gets the first one's answer, never a second job."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row, select

from auctune.domain import InputError
from auctune.service.fair_queue import in_thread
from auctune.service.request_scope import leave_gate
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.committer import durable


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Identity of a request, by which a repetition is recognized.

    The token is its idempotency key, or else the digest of its body.
    """

    key: str
    token: str
    digest: str


BODY_SECONDS = 600.0
KEY_SECONDS = 86_400.0
_MAX_RECENT = 100_000
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class _Recent:
    digest: str
    job: "asyncio.Future[str]"
    at: float


class IdempotencyStore:
    """Jobs of recent requests.

    An idempotency key is valid for a day. Without one, a body that the client marks as a retry
    (`x-stainless-retry-count` above 0) counts as the same request for ten minutes. A row is removed
    after a day; `prune` is to be called from time to time.
    """

    def __init__(self, reader: Engine, now: Callable[[], float]) -> None:
        self._reader = reader
        self._now = now
        self._recent: OrderedDict[tuple[str, str], _Recent] = OrderedDict()

    def key_for(self, api_key: str, name: str | None, body: bytes) -> IdempotencyKey:
        digest = hashlib.sha256(body).hexdigest()
        token = f"body:{digest}" if name is None else f"key:{name}"
        return IdempotencyKey(api_key, token, digest)

    async def find(self, key: IdempotencyKey, *, is_retry: bool) -> str | None:
        """Return the job of an earlier identical request, or None.

        The error of a request in progress is raised here too.
        """
        by_key = key.token.startswith("key:")
        if not (by_key or is_retry):
            return None
        recent = self._find_recent(key, by_key=by_key)
        if recent is None:
            stored = await in_thread(self._find_stored, key)
            if stored is not None and self._is_fresh(stored.at, by_key=by_key):
                _check_body(stored.digest, key)
                return str(stored.job)
            # The same request may have arrived during the query.
            recent = self._find_recent(key, by_key=by_key)
        if recent is None:
            return None
        _check_body(recent.digest, key)
        leave_gate()
        return await asyncio.shield(recent.job)

    def start(self, key: IdempotencyKey) -> "asyncio.Future[str]":
        """Register a request in progress; the caller sets the job's id or the error.

        To be called right after `find` returned None, without an `await` in between.
        """
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Mark an error as retrieved, as no other request may wait for it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._recent[(key.key, key.token)] = _Recent(key.digest, future, self._now())
        while len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        return future

    def discard(self, key: IdempotencyKey) -> None:
        """Forget a request that failed, so that it can be repeated."""
        self._recent.pop((key.key, key.token), None)

    def forget(self, api_keys: Collection[str]) -> None:
        """Forget all requests of API keys."""
        for recent in [one for one in self._recent if one[0] in api_keys]:
            del self._recent[recent]

    async def prune(self, committer: Committer) -> None:
        """Remove the stored keys that are no longer valid."""
        while expired := await asyncio.to_thread(self._expired):
            await durable(committer, WriteBatch().remove(tables.idempotency_keys, *expired))

    def _expired(self) -> list[dict[str, str]]:
        table = tables.idempotency_keys
        chosen = select(table.c.key_id, table.c.token).where(table.c.at < self._now() - KEY_SECONDS)
        with self._reader.connect() as connection:
            return [dict(row) for row in connection.execute(chosen.limit(_PAGE)).mappings()]

    def _find_recent(self, key: IdempotencyKey, *, by_key: bool) -> _Recent | None:
        recent = self._recent.get((key.key, key.token))
        return recent if recent is not None and self._is_fresh(recent.at, by_key=by_key) else None

    def _is_fresh(self, at: float, *, by_key: bool) -> bool:
        return self._now() - at < (KEY_SECONDS if by_key else BODY_SECONDS)

    def _find_stored(self, key: IdempotencyKey) -> Row[Any, Any, Any] | None:
        table = tables.idempotency_keys
        chosen = select(table.c.digest, table.c.job, table.c.at).where(
            table.c.key_id == key.key, table.c.token == key.token
        )
        with self._reader.connect() as connection:
            return connection.execute(chosen).first()


def _check_body(digest: str, key: IdempotencyKey) -> None:
    if digest != key.digest:
        raise InputError(
            "Idempotency-Key", "was used for another request", "a new key for a new request"
        )
