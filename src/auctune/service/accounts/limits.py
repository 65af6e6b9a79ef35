"""Limits of users and keys: open jobs, request rates, concurrent streams, and locks by key."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from sqlalchemy import Engine, func, select

from auctune.domain import AuctuneError
from auctune.service.storage import tables
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.read_model import JobReadModel, Status

OPEN = (Status.VALIDATING, Status.QUEUED, Status.RUNNING)


class QuotaExceededError(AuctuneError):
    """A user has as much of something as a user may have."""


class JobQuota:
    """Open jobs by owner; for any number of threads.

    Args:
        limit: of each user.
        held: (owner, job) of all that are open.
    """

    def __init__(self, limit: int, held: Iterable[tuple[str, str]] = ()) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: dict[str, set[str]] = {}
        self._asked: dict[str, set[str]] = {}
        for owner, job in held:
            self._open.setdefault(owner, set()).add(job)

    @property
    def count(self) -> int:
        """Of all users."""
        with self._lock:
            return sum(map(len, self._open.values()))

    def open_jobs(self, owner: str) -> frozenset[str]:
        """Those of one user."""
        with self._lock:
            return frozenset(self._open.get(owner, ()))

    def update(self, rows: Iterable[JobReadModel]) -> None:
        """Take over how jobs stand."""
        with self._lock:
            for row in rows:
                if row.status in OPEN:
                    self._open.setdefault(row.owner, set()).add(row.id)
                elif (held := self._open.get(row.owner)) is not None:
                    held.discard(row.id)
                    if not held:
                        del self._open[row.owner]

    @contextmanager
    def reserve(self, owner: str, job: str) -> Iterator[None]:
        """Room for a job, taken until the end of the block, by when it is noted or refused.

        Raises:
            QuotaExceededError: if there is none.
        """
        with self._lock:
            asked, held = self._asked.get(owner, set()), self._open.get(owner, set())
            # One that is noted already and not answered yet counts once.
            if len(held) + len(asked - held) >= self._limit:
                raise QuotaExceededError(f"there are {self._limit} open jobs of yours already")
            self._asked.setdefault(owner, set()).add(job)
        try:
            yield
        finally:
            with self._lock:
                asked = self._asked[owner]
                asked.discard(job)
                if not asked:
                    del self._asked[owner]


def stored_bids(reader: Engine, since: float) -> list[tuple[str, float]]:
    """Return owner and unix time of bids, pauses and resumes on record since a time, by time."""
    events, jobs = tables.events.c, tables.jobs.c
    with reader.connect() as connection:
        # Events are in the order of their times, of which there is no index.
        newest = connection.execute(select(func.max(events.seq))).scalar()
        first, last = 0, 0 if newest is None else newest + 1
        while first < last:
            middle = (first + last) // 2
            chosen = select(events.seq, events.at).where(events.seq >= middle)
            row = connection.execute(chosen.order_by(events.seq).limit(1)).one()
            first, last = (row.seq + 1, last) if row.at < since else (first, middle)
        bids = select(jobs.owner, jobs.created_at).where(jobs.seq >= first)
        acts = (
            select(jobs.owner, events.at)
            .join(tables.jobs, jobs.id == events.job)
            .where(events.seq >= first, events.kind.in_((EventType.PAUSED, EventType.RESUMED)))
        )
        found = [*connection.execute(bids), *connection.execute(acts)]
    return sorted(((owner, at) for owner, at in found), key=lambda one: one[1])


def load_open_jobs(reader: Engine) -> list[tuple[str, str]]:
    """(owner, job) of all jobs that are open on record."""
    table = tables.jobs
    chosen = select(table.c.owner, table.c.id).where(
        table.c.status.in_([status.value for status in OPEN])
    )
    with reader.connect() as connection:
        return [(row.owner, row.id) for row in connection.execute(chosen)]


# Token buckets: request rates of keys and users.


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class TokenBuckets:
    """Buckets of all keys.

    Args:
        per_second: requests that a bucket gains in a second, > 0.
        burst: requests that a full bucket holds, >= 1.
        now: tells the time; seconds, never going back.
    """

    def __init__(self, per_second: float, burst: float, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._buckets: dict[str, _Bucket] = {}

    def acquire(self, key: str, count: float = 1.0) -> float:
        """Take so much from a key's bucket; seconds to wait where it has less, else 0.

        What is more than a full bucket holds counts as a full one.
        """
        count = min(count, self._burst)
        now = self._now()
        bucket = self._buckets.get(key)
        if bucket is None:
            self._evict_full(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < count:
            return (count - bucket.left) / self._per_second
        bucket.left -= count
        return 0.0

    def count_earlier(self, key: str, age: float) -> None:
        """Count one use of so many seconds ago; uses of a key come oldest first, before any other.

        A bucket that is empty stays so.
        """
        at = self._now() - age
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, at))
        bucket.left = min(self._burst, bucket.left + (at - bucket.at) * self._per_second)
        bucket.left, bucket.at = max(0.0, bucket.left - 1.0), at

    def _evict_full(self, now: float) -> None:
        """A full bucket is as good as none: keys that come no more take no memory."""
        if len(self._buckets) < 10_000:
            return
        fill = self._burst / self._per_second
        self._buckets = {k: b for k, b in self._buckets.items() if now - b.at < fill}


# Concurrent event streams and requests of a key.


class StreamLimiter:
    """Open streams or requests by key; on one loop.

    Args:
        limit: of each key.
        what: they are, in the plural.
    """

    def __init__(self, limit: int, what: str = "streams") -> None:
        self._limit = limit
        self._what = what
        self._open: Counter[str] = Counter()

    @contextmanager
    def acquire(self, key: str) -> Iterator[None]:
        """One of them, until the end of the block.

        Raises:
            QuotaExceededError: if there are as many as there may be.
        """
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def check(self, key: str) -> None:
        """Whether there may be one more.

        Raises:
            QuotaExceededError: if not.
        """
        if self._open[key] >= self._limit:
            raise QuotaExceededError(f"{self._limit} {self._what} of this key are open already")


# Locks by key: bids that draw on one budget are decided one after the other, in all zones.


class KeyedLocks:
    """Locks by name, each there only while somebody has or wants it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, names: Iterable[str]) -> AsyncIterator[None]:
        """A turn of all these."""
        async with AsyncExitStack() as stack:
            # In one order everywhere, so that no two wait for each other.
            for name in sorted(names):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield
