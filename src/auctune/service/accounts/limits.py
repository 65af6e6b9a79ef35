"""Limits of users and keys: open jobs, rates, what is open at once; locks by key."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from weakref import WeakValueDictionary

from sqlalchemy import Engine, func, literal, select

from auctune.domain import AuctuneError
from auctune.service.storage import tables
from auctune.service.storage.event_log import EventType
from auctune.service.storage.queries import JobReadModel, Status

OPEN = (Status.VALIDATING, Status.QUEUED, Status.RUNNING)
"""Statuses of jobs that have not ended; paused jobs have them too."""


_MAX_BUCKETS = 10_000


class LimitReachedError(AuctuneError):
    """A limit of a user or key is reached: 429 `limit_reached`.

    Attributes:
        retry_after: seconds after which it is likely not to be; None: unknown.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OpenJobs:
    """Limit on the open jobs of each user; `held` are the (owner, job) open now. Thread-safe."""

    def __init__(self, limit: int, held: Iterable[tuple[str, str]] = ()) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: dict[str, set[str]] = {}
        self._reserved: dict[str, set[str]] = {}
        for owner, job in held:
            self._open.setdefault(owner, set()).add(job)

    @property
    def count(self) -> int:
        with self._lock:
            return sum(map(len, self._open.values()))

    def jobs_of(self, owner: str) -> frozenset[str]:
        with self._lock:
            return frozenset(self._open.get(owner, ()))

    def update(self, rows: Iterable[JobReadModel]) -> None:
        """Count jobs by their new status."""
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
        """Reserve a place for a job while it is decided."""
        with self._lock:
            reserved, held = self._reserved.get(owner, set()), self._open.get(owner, set())
            # A job that is open before its answer is sent counts once. Open ones are many.
            if len(held) + len(reserved - held) >= self._limit:
                raise LimitReachedError(f"you have {self._limit} open jobs, the maximum")
            self._reserved.setdefault(owner, set()).add(job)
        try:
            yield
        finally:
            with self._lock:
                reserved = self._reserved[owner]
                reserved.discard(job)
                if not reserved:
                    del self._reserved[owner]


@dataclass(frozen=True, slots=True)
class StoredBid:
    """A bid, pause or resume; `size` is the bytes of its event, which holds the request's texts."""

    owner: str
    at: float
    size: int


def stored_bids(reader: Engine, since: float) -> list[StoredBid]:
    """Return the bids, pauses and resumes since a time, oldest first."""
    events, jobs = tables.events.c, tables.jobs.c
    with reader.connect() as connection:
        # Events are ordered by time, which has no index: bisect their numbers.
        newest = connection.execute(select(func.max(events.seq))).scalar()
        first, last = 0, 0 if newest is None else newest + 1
        while first < last:
            middle = (first + last) // 2
            chosen = select(events.seq, events.at).where(events.seq >= middle)
            row = connection.execute(chosen.order_by(events.seq).limit(1)).one()
            first, last = (row.seq + 1, last) if row.at < since else (first, middle)
        bids = (
            select(jobs.owner, jobs.created_at, func.length(events.body))
            .join(tables.events, jobs.seq == events.seq)
            .where(jobs.seq >= first)
        )
        acts = (
            select(jobs.owner, events.at, literal(0))
            .join(tables.jobs, jobs.id == events.job)
            .where(events.seq >= first, events.type.in_((EventType.PAUSED, EventType.RESUMED)))
        )
        rows = [*connection.execute(bids), *connection.execute(acts)]
    return sorted((StoredBid(*row) for row in rows), key=lambda one: one.at)


@dataclass(frozen=True, slots=True)
class StoredOpenJob:
    """An open job in the store."""

    owner: str
    id: str
    zone: str


def load_open_jobs(reader: Engine) -> list[StoredOpenJob]:
    """Return all open jobs in the store."""
    table = tables.jobs
    chosen = select(table.c.owner, table.c.id, table.c.zone).where(
        table.c.status.in_([status.value for status in OPEN])
    )
    with reader.connect() as connection:
        return [StoredOpenJob(*row) for row in connection.execute(chosen)]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class TokenBuckets:
    """Token buckets by key, for request rates.

    A bucket gains `per_second` tokens, up to `burst`; `now` is a monotonic clock.
    """

    def __init__(self, per_second: float, burst: float, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._buckets: dict[str, _Bucket] = {}
        self._max_buckets = _MAX_BUCKETS

    def acquire(self, key: str, count: float = 1.0) -> float:
        """Take tokens from a bucket; return 0, or the seconds to wait if it has too few.

        More tokens than a full bucket holds count as a full one.
        """
        count = min(count, self._burst)
        bucket = self._refilled(key, self._now())
        if bucket.tokens < count:
            return (count - bucket.tokens) / self._per_second
        bucket.tokens -= count
        return 0.0

    def take_early(self, key: str, max_wait: float) -> float:
        """Take a token, also before it is there; return by how many seconds, at most `max_wait`."""
        bucket = self._refilled(key, self._now())
        bucket.tokens = max(bucket.tokens - 1.0, -max_wait * self._per_second)
        return max(0.0, -bucket.tokens / self._per_second)

    def wait(self, key: str) -> float:
        """Return the seconds until a bucket has a token."""
        bucket = self._buckets.get(key)
        tokens = self._burst if bucket is None else self._tokens(bucket, self._now())
        return max(0.0, (1.0 - tokens) / self._per_second)

    def count_earlier(self, key: str, age: float, count: float = 1.0) -> None:
        """Count a use `age` seconds ago, down to an empty bucket.

        Called before any `acquire`, oldest use first.
        """
        bucket = self._refilled(key, self._now() - age)
        bucket.tokens = max(0.0, bucket.tokens - count)

    def _refilled(self, key: str, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            self._evict_full(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        bucket.tokens, bucket.at = self._tokens(bucket, now), now
        return bucket

    def _tokens(self, bucket: _Bucket, now: float) -> float:
        return min(self._burst, bucket.tokens + (now - bucket.at) * self._per_second)

    def _evict_full(self, now: float) -> None:
        # A full bucket equals a new one: unused keys take no memory.
        if len(self._buckets) < self._max_buckets:
            return
        self._buckets = {
            key: one for key, one in self._buckets.items() if self._tokens(one, now) < self._burst
        }
        self._max_buckets = max(_MAX_BUCKETS, 2 * len(self._buckets))


class LateResponses:
    """Rate limit of responses to those who have no key, or are beyond its rate, by sender.

    Beyond the rate they are late: a client that waits for them sends fewer. Refusals would cost as
    much as responses, and clients would connect again.

    Args:
        per_second: responses to a sender, in the long run.
        burst: responses to a sender at once.
        max_delay: of a response, in seconds.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        per_second: float = 50.0,
        burst: float = 200.0,
        max_delay: float = 20.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._buckets, self._max_delay = TokenBuckets(per_second, burst, now), max_delay

    def is_flooding(self, address: str) -> bool:
        """Return whether the next response to an address would be as late as any may be."""
        return self._buckets.wait(client_network(address)) >= self._max_delay

    def delay(self, sender: str) -> float:
        """Count a request; return the seconds by which its response is to be late."""
        return self._buckets.take_early(sender, self._max_delay)


def client_network(address: str) -> str:
    """Return what one client has: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or int(found) >> 64)


class OpenLimiter:
    """Limit on what a user, or a key, has open at once; for one event loop.

    Args:
        limit: that each may have open.
        message: of the error beyond it.
        is_brief: whether what is open ends soon, so that the error says when to try again.
        now: a monotonic clock, in seconds.
    """

    # Of the mean time for which something is open, the share of the newest.
    _NEWEST_SHARE = 0.05

    def __init__(
        self,
        limit: int,
        message: str,
        *,
        is_brief: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit, self._message, self._is_brief, self._now = limit, message, is_brief, now
        self._open = Counter[str]()
        self._mean_seconds = 0.0

    def open(self, name: str) -> Callable[[], None]:
        """Count one more until what is returned is called, which may be called again.

        Raises:
            LimitReachedError: if as many are open as may be.
        """
        self.check(name)
        self._open[name] += 1
        begun, is_open = self._now(), True

        def close() -> None:
            nonlocal is_open
            if not is_open:
                return
            is_open = False
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
            self._mean_seconds += self._NEWEST_SHARE * (self._now() - begun - self._mean_seconds)

        return close

    @contextmanager
    def acquire(self, name: str) -> Iterator[None]:
        """Count one until the end of the block; errors as of `open`."""
        close = self.open(name)
        try:
            yield
        finally:
            close()

    def check(self, name: str) -> None:
        """Check that one more may be opened; raise LimitReachedError otherwise."""
        if self._open[name] >= self._limit:
            # By Little's law, one of so many ends in this time.
            seconds = self._mean_seconds / self._limit if self._is_brief else None
            raise LimitReachedError(self._message, retry_after=seconds)


class KeyedLocks:
    """Locks by name, for decisions that draw on one budget; created on demand."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, names: Iterable[str]) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            # Always in the same order, to avoid deadlocks.
            for name in sorted(names):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield
