"""Limits of users and keys: open jobs, rates, streams, long work, shared slots, locks by key."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import Engine, func, literal, select

from auctune.domain import AuctuneError
from auctune.service.storage import tables
from auctune.service.storage.events import EventType
from auctune.service.storage.read_model import JobReadModel, Status

T = TypeVar("T")

OPEN = (Status.VALIDATING, Status.QUEUED, Status.RUNNING)
"""Statuses of jobs that have not ended; paused jobs have them too."""


class QuotaExceededError(AuctuneError):
    """A limit of a user or key is reached: 429 `limit_reached`.

    Attributes:
        retry_after: seconds after which it is likely not to be; None: unknown.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class JobQuota:
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

    def open_jobs(self, owner: str) -> frozenset[str]:
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
            # A job that is open before its answer is sent counts once.
            if len(held | reserved) >= self._limit:
                raise QuotaExceededError(f"you have {self._limit} open jobs, the maximum")
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

    def acquire(self, key: str, count: float = 1.0) -> float:
        """Take tokens from a bucket; return 0, or the seconds to wait if it has too few.

        More tokens than a full bucket holds count as a full one.
        """
        count = min(count, self._burst)
        now = self._now()
        bucket = self._buckets.get(key)
        if bucket is None:
            self._evict_full(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.tokens < count:
            return (count - bucket.tokens) / self._per_second
        bucket.tokens -= count
        return 0.0

    def count_earlier(self, key: str, age: float, count: float = 1.0) -> None:
        """Count a use `age` seconds ago, down to an empty bucket.

        Called before any `acquire`, oldest use first.
        """
        at = self._now() - age
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, at))
        bucket.tokens = min(self._burst, bucket.tokens + (at - bucket.at) * self._per_second)
        bucket.tokens, bucket.at = max(0.0, bucket.tokens - count), at

    def _evict_full(self, now: float) -> None:
        # A full bucket equals a new one: unused keys take no memory.
        if len(self._buckets) < 10_000:
            return
        fill = self._burst / self._per_second
        self._buckets = {k: b for k, b in self._buckets.items() if now - b.at < fill}


class StreamLimiter:
    """Limit on concurrent streams or requests of a key; for one event loop.

    `what` names them in errors, in the plural.
    """

    def __init__(self, limit: int, what: str = "streams") -> None:
        self._limit = limit
        self._what = what
        self._open: Counter[str] = Counter()

    @contextmanager
    def acquire(self, key: str) -> Iterator[None]:
        """Count one until the end of the block."""
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def check(self, key: str) -> None:
        """Check that the key may open one more; raise QuotaExceededError otherwise."""
        if self._open[key] >= self._limit:
            raise QuotaExceededError(f"this key has {self._limit} open {self._what}, the maximum")


class FairSlots:
    """Slots that users share; for one event loop.

    A free slot goes to the user with the fewest, and among these to the one that waits longest. A
    user's own requests keep their order.

    Args:
        what: name of what takes slots, for errors, in the plural.
        num_slots: in all.
        max_waiting: requests of a user that may wait.
    """

    def __init__(self, what: str, num_slots: int, max_waiting: int) -> None:
        self._what, self._max_waiting = what, max_waiting
        self._free = self.num_slots = num_slots
        self._used: Counter[str] = Counter()
        # In the order of users that began to wait: slots to take, and whom to resume.
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    @asynccontextmanager
    async def acquire(
        self, user: str, count: int, *, is_limited: bool = True
    ) -> AsyncIterator[None]:
        """Hold slots until the end of the block, all of them if `count` is more.

        What belongs to a request that has begun is not refused (`is_limited=False`).

        Raises:
            QuotaExceededError: if too many requests of the user wait already.
        """
        count = min(count, self.num_slots)
        if self._waiting or count > self._free:
            if is_limited:
                self._check_room(user)
            await self._wait(user, count)
        else:
            self._take(user, count)
        try:
            yield
        finally:
            self._release(user, count)

    def _check_room(self, user: str) -> None:
        num_waiting = len(self._waiting.get(user, ()))
        if num_waiting >= self._max_waiting:
            raise QuotaExceededError(
                f"{num_waiting} {self._what} of yours are waiting, the maximum; try again later"
            )

    async def _wait(self, user: str, count: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append((count, turn))
        self._resume()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Cancelled after it got its slots.
                self._release(user, count)
            else:
                self._drop(user, (count, turn))
            raise

    def _drop(self, user: str, waiting: "tuple[int, asyncio.Future[None]]") -> None:
        queue = self._waiting.get(user)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._waiting[user]
            # The next one may need fewer slots.
            self._resume()

    def _resume(self) -> None:
        """Resume the requests whose turn it is, as long as there are slots for the next one."""
        while self._waiting:
            user = min(self._waiting, key=lambda name: self._used[name])
            queue = self._waiting[user]
            count, turn = queue[0]
            if count > self._free:
                return
            queue.popleft()
            # To the end of the order, if more of its requests wait.
            del self._waiting[user]
            if queue:
                self._waiting[user] = queue
            if not turn.cancelled():
                self._take(user, count)
                turn.set_result(None)

    def _take(self, user: str, count: int) -> None:
        self._free -= count
        self._used[user] += count

    def _release(self, user: str, count: int) -> None:
        self._free += count
        self._used[user] -= count
        if not self._used[user]:
            del self._used[user]
        self._resume()


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


class FairQueue:
    """Runs work in a thread, fairly: a user waits for at most one item of each other user.

    Args:
        what: name of the result, for errors.
        max_waiting: items of a user that may wait; one more may be running.
        max_users: users that may wait.
    """

    def __init__(self, what: str, max_waiting: int = 0, max_users: int = 20) -> None:
        self._what, self._max_waiting, self._max_users = what, max_waiting, max_users
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        # Number of the last turn, of the users that wait or run now.
        self._turn_of: dict[str, int] = {}
        self._num_turns = 0
        self._running: str | None = None

    async def run(self, user: str, work: Callable[[], T], *, is_limited: bool = True) -> T:
        """Run `work` in a thread when it is this user's turn, and return its result.

        If the caller is cancelled, work that has started continues, and the next item waits for it.
        Work that is limited elsewhere is not refused (`is_limited=False`).

        Raises:
            QuotaExceededError: if too many items wait already.
        """
        if is_limited:
            self._check_room(user)
        if self._running is not None:
            await self._wait(user)
        else:
            self._begin(user)
        task = asyncio.ensure_future(asyncio.to_thread(work))
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _check_room(self, user: str) -> None:
        of_user = len(self._waiting.get(user, ()))
        is_busy = self._running == user or of_user > 0
        if is_busy and of_user >= self._max_waiting:
            raise QuotaExceededError(
                f"another {self._what} of yours is in progress; wait until it is done"
            )
        if user not in self._waiting and len(self._waiting) >= self._max_users:
            raise QuotaExceededError(
                f"too many users are waiting for their {self._what}; try again later"
            )

    async def _wait(self, user: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Cancelled after it got its turn: start the next item.
                self._next()
            else:
                self._drop(user, turn)
            raise

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        # The caller may have been cancelled: mark the error as retrieved in any case.
        if not task.cancelled():
            task.exception()
        self._next()

    def _next(self) -> None:
        """Start the item of the user whose last turn was longest ago."""
        self._running = None
        while self._waiting:
            user = min(self._waiting, key=lambda name: self._turn_of.get(name, 0))
            turn = self._waiting[user][0]
            self._drop(user, turn)
            if not turn.cancelled():
                # Mark as running at once, so that no later caller starts in between.
                self._begin(user)
                turn.set_result(None)
                return

    def _begin(self, user: str) -> None:
        self._running = user
        self._num_turns += 1
        self._turn_of = {name: at for name, at in self._turn_of.items() if name in self._waiting}
        self._turn_of[user] = self._num_turns

    def _drop(self, user: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(user)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[user]
