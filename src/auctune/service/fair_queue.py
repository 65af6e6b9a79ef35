"""Queues before what users share, in which whoever has used least goes first.

One, the gate, stands before the routes: so many requests work at once. One stands before each thing
that requests share beyond: threads that read, quotes, explanations, charts, writes of uploads. A
request holds one place at a time: it leaves the gate when it begins to wait for something else. Its
scope counts what it has used.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

from auctune.domain.fair_places import FairPlaces
from auctune.engine.data import DataFuture
from auctune.service.accounts.limits import LimitReachedError, OpenLimiter
from auctune.service.accounts.registry import Principal

P = ParamSpec("P")
T = TypeVar("T")

# A gigabyte that is received or sent counts as ten seconds.
_SECONDS_PER_BYTE = 1e-8


@dataclass(slots=True)
class Use:
    """What requests have used of the service.

    Attributes:
        loop_seconds: on the event loop.
        thread_seconds: of CPU time of threads that worked for them.
        process_seconds: of child processes.
        bytes_in, bytes_out: of bodies.
    """

    loop_seconds: float = 0.0
    thread_seconds: float = 0.0
    process_seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def cost(self) -> float:
        """All of it in seconds."""
        seconds = self.loop_seconds + self.thread_seconds + self.process_seconds
        return seconds + (self.bytes_in + self.bytes_out) * _SECONDS_PER_BYTE

    def add(self, other: "Use") -> None:
        self.loop_seconds += other.loop_seconds
        self.thread_seconds += other.thread_seconds
        self.process_seconds += other.process_seconds
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


@dataclass(slots=True)
class RequestScope:
    """The request in whose name something runs.

    Attributes:
        use: what it has used so far.
        user: who sent it; None until that is known.
        weight: of the user in queues.
        gate: place before the routes, once it has one.
        check_unsent: raises `LimitReachedError` if its user's clients do not read their responses;
            None: nothing is to be checked, as before its user is known and once it is answered.
        longest_step: seconds for which it has held the event loop at once, at most.
        reads: threads that read for requests.
    """

    reads: "ReadThreads"
    check_unsent: Callable[[], None] | None = None
    use: Use = field(default_factory=Use)
    user: str | None = None
    weight: float = 1.0
    gate: "Place | None" = None
    longest_step: float = 0.0

    def leave_gate(self) -> None:
        """Give the place before the routes back; may be called again, and without one."""
        if self.gate is not None:
            self.gate.free()


_request: ContextVar[RequestScope | None] = ContextVar("request", default=None)


def current_request() -> RequestScope | None:
    """Return the request in whose name this runs; None: the service itself."""
    return _request.get()


def current_weight() -> float:
    """Return the weight of the user in whose name this runs; 1 for the service itself."""
    request = _request.get()
    return 1.0 if request is None else request.weight


async def outside_gate(future: DataFuture[T]) -> T:
    """Return the answer of a data process; who waits for it holds no place of the gate for that."""
    leave_gate()
    try:
        return await asyncio.wrap_future(future)
    finally:
        if (request := _request.get()) is not None:
            request.use.process_seconds += future.seconds


def leave_gate() -> None:
    """Give the place before the routes back, if this runs in the name of a request."""
    if (request := _request.get()) is not None:
        request.leave_gate()


@contextmanager
def request_scope(request: RequestScope) -> Iterator[None]:
    """Have what the block does, and the tasks that it starts, run in a request's name."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


ESTIMATES = ThreadPoolExecutor(thread_name_prefix="estimates")
"""Threads for estimates and explanations, of which each zone's queue has one at a time: a user's
quote in many zones may hold them all for seconds, and writes and workers have those of the loop."""

# Of the mean cost of a queue's work, the share of the newest.
_NEWEST_SHARE = 0.05
# As much as some requests cost together, such as those of an upload.
_CREDIT_SECONDS = 0.05
# What a stream or an examination has used counts at its end: nobody waits for as much of everybody
# else's.
_MAX_DEBT_SECONDS = 5.0
# Most reads take some milliseconds.
_LONG_READ_SECONDS = 0.05


class FairQueue:
    """A number of places that users share, for one event loop.

    A free place goes to the waiting user who has used least, for its weight: see `FairPlaces`. The
    last free one of several is for who holds none.

    Args:
        what: name of what takes places, for errors, in the plural.
        num_places: in all.
        max_waiting: that a user may have waiting; None: any number, as they are limited elsewhere.
        patience: seconds of work after which there is one place more until it ends; None: never.
        max_shared: places of a user while others use some too; see `FairPlaces`; None: any number.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        what: str,
        num_places: int,
        max_waiting: int | None = None,
        patience: float | None = None,
        max_shared: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._max_waiting, self._patience = what, max_waiting, patience
        self._overtaken: Place | None = None
        self.places = FairPlaces(
            num_places,
            credit=_CREDIT_SECONDS,
            max_debt=_MAX_DEBT_SECONDS,
            keeps_one=True,
            max_shared=max_shared,
            now=now,
        )
        self.now = now
        self._mean_cost = self._mean_seconds = 0.0

    def place(
        self, user: str, *, cost: Callable[[], float] | None = None, is_limited: bool = True
    ) -> "Place":
        """Return a place, to be held until the end of an `async with`, or until it is freed.

        Args:
            user: whose turn it takes.
            cost: returns what the block has cost so far; None: the seconds that it has taken.
            is_limited: whether it is refused when too much waits; what belongs to a request that
                has begun is not.

        Raises:
            LimitReachedError: where the block is entered, if too much of the user waits already.
        """
        return Place(self, user, cost, is_limited)

    async def take(self, user: str, is_limited: bool) -> float:
        """Take a place when it is this user's turn; return the cost that was charged for it."""
        leave_gate()
        if is_limited and not self.places.is_free(user):
            self._check_room(user)
        await self.places.take(user, current_weight())
        return self.places.share.begin(user, self._mean_cost)

    async def run(
        self,
        user: str,
        work: Callable[[], T],
        *,
        executor: Executor | None = None,
        is_limited: bool = True,
    ) -> T:
        """Run `work` in a thread, as of `complete`, and return its result.

        Args:
            user: whose turn it takes.
            work: what to do.
            executor: of threads; None: that of the event loop.
            is_limited: as of `place`.

        Raises:
            LimitReachedError: if too much of the user waits already.
        """
        in_executor = partial(_counted, executor, work)
        return await self.complete(user, in_executor, is_limited=is_limited)

    async def complete(
        self, user: str, work: Callable[[], Awaitable[T]], *, is_limited: bool = True
    ) -> T:
        """Do `work` when it is this user's turn, and return its result.

        If the caller is cancelled, work that has begun goes on and keeps its place; other work is
        not begun.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._complete(user, work, is_limited, begun))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not begun.done():
                task.cancel()
            else:
                # Nobody else retrieves its error.
                task.add_done_callback(_retrieve)
            raise

    async def _complete(
        self,
        user: str,
        work: Callable[[], Awaitable[T]],
        is_limited: bool,
        begun: "asyncio.Future[None]",
    ) -> T:
        async with self.place(user, is_limited=is_limited) as place:
            begun.set_result(None)
            with self._overtaken_if_long(place):
                return await work()

    @contextmanager
    def _overtaken_if_long(self, place: "Place") -> Iterator[None]:
        """Have one place more for others while a block takes long, of one block at a time."""
        if self._patience is None:
            yield
            return
        loop, patience = asyncio.get_running_loop(), self._patience
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if self._overtaken is None:
                self._overtaken = place
                place.overtake()
            else:
                timer = loop.call_later(patience, look)

        timer = loop.call_later(patience, look)
        try:
            yield
        finally:
            timer.cancel()
            if self._overtaken is place:
                self._overtaken = None

    def _check_room(self, user: str) -> None:
        num_waiting = self.places.num_waiting(user)
        if self._max_waiting is not None and num_waiting >= self._max_waiting:
            # Everybody who waits gets one place in a round.
            num_rounds = self.places.num_users_waiting / self.places.num_places
            raise LimitReachedError(
                f"{num_waiting} {self._what} of yours are waiting, the maximum; try again later",
                retry_after=self._mean_seconds * num_rounds,
            )

    def observe(self, cost: float, seconds: float) -> None:
        """Note what a place was used for, and for how long it was held."""
        self._mean_cost += _NEWEST_SHARE * (cost - self._mean_cost)
        self._mean_seconds += _NEWEST_SHARE * (seconds - self._mean_seconds)


class Place:
    """A place of a queue, which a user holds in a block; see `FairQueue.place`."""

    def __init__(
        self, queue: FairQueue, user: str, cost: Callable[[], float] | None, is_limited: bool
    ) -> None:
        self._queue, self._user, self._cost, self._is_limited = queue, user, cost, is_limited
        self._begun = 0.0
        self._is_free = self._is_overtaken = False
        # So much of its cost is in what its user has used.
        self._charged = 0.0

    async def __aenter__(self) -> Self:
        self._charged = await self._queue.take(self._user, self._is_limited)
        self._begun = self._queue.now()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_free:
            # What a stream uses later counts, but to hold one is no claim.
            self._settle()
        else:
            self.free()

    def free(self) -> None:
        """Give the place back before the end of the block; may be called again."""
        if not self._is_free:
            self._is_free = True
            # First, as it counts for whose turn it is now.
            self._settle()
            self._queue.observe(self._charged, self._queue.now() - self._begun)
            places = self._queue.places
            (places.end if self._is_overtaken else places.free)(self._user)

    def overtake(self) -> None:
        """Have one place more than there are, until this one is given back."""
        self._is_overtaken = True
        self._settle()
        self._queue.places.add()

    def _settle(self) -> None:
        """Add to what the user has used what the block has cost since the last call."""
        cost = self._queue.now() - self._begun if self._cost is None else self._cost()
        self._queue.places.share.charge(self._user, cost - self._charged)
        self._charged = cost


async def in_place(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what an estimate returns, in a thread, for a request that has a place for it."""
    return await _counted(ESTIMATES, partial(work, *args, **kwargs))


async def _counted(executor: Executor | None, work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    result, seconds = await loop.run_in_executor(executor, partial(_timed, work))
    if (request := current_request()) is not None:
        request.use.thread_seconds += seconds
    return result


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of work, and the CPU seconds that it took on this thread."""
    begun = time.thread_time()
    return work(), time.thread_time() - begun


def _retrieve(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


class ReadThreads:
    """Threads that read the database for requests; what else runs in threads waits for none.

    One reads at a time: several would take turns at the interpreter, row by row, at the expense of
    the event loop. While one takes long, another one reads beside it.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(2, "reads")
        self._queue = FairQueue("reads", 1, patience=_LONG_READ_SECONDS)

    async def run(self, user: str, work: Callable[[], T]) -> T:
        """Run `work` in one of the threads when it is this user's turn."""
        return await self._queue.run(user, work, executor=self._executor)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a read returns, in a thread: a request's when it is its user's turn."""
    request = current_request()
    if request is None or request.user is None:
        return await asyncio.to_thread(work, *args, **kwargs)

    def read() -> T:
        # Only now: any number may have waited for this turn before anything was sent.
        if request.check_unsent is not None:
            request.check_unsent()
        return work(*args, **kwargs)

    return await request.reads.run(request.user, read)


async def in_turns(parts: Iterator[T]) -> AsyncIterator[T]:
    """Yield the items of a long read, none of which is None: each is read `in_thread`.

    Other users read between two items, and nothing is read after the caller has been cancelled.
    """
    while (part := await in_thread(next, parts, None)) is not None:
        yield part


BUFFERED_BYTES = 64 * 1024
"""A part of a response up to this size is not counted as unread: a socket buffers as much."""
_UNSENT_RETRY_SECONDS = 1.0


class Gate:
    """Lets so many requests work at once, and bounds how many a user has open.

    A request leaves its place when it begins to wait for something that is shared beyond, for its
    body or for a client that reads slowly; and at any rate after a while: what takes longer waits
    for something else, such as a database that is gone. All that it has used by its end counts.

    Args:
        num_places: requests that work at once.
        max_open: requests of a user that are not answered yet.
        weight: of a user, here and in all queues beyond.
        patience: seconds after which a request leaves its place.

    Attributes:
        used: by user, since the start of the service.
        max_unsent: bytes of large responses that a user's clients have not read yet, above which
            nothing more is read for them.
    """

    def __init__(
        self,
        num_places: int,
        max_open: int,
        weight: Callable[[str], float] = lambda _user: 1.0,
        patience: float = 1.0,
    ) -> None:
        self.used: dict[str, Use] = {}
        self.max_unsent = 64 * 2**20
        self._unsent = Counter[str]()
        # Of `used`, by user: the cost that is in the virtual times.
        self._charged = defaultdict[str, float](float)
        # The event loop goes round: a step of a request waits for one of each other.
        self._queue = FairQueue("requests", num_places, max_shared=max(1, num_places // 4))
        self._weight, self._patience = weight, patience
        message = f"you have {max_open} open requests, the maximum"
        self._open = OpenLimiter(max_open, message)

    @asynccontextmanager
    async def enter(
        self, request: RequestScope, who: Principal, body: Callable[[], Awaitable[Any]] | None
    ) -> AsyncIterator[None]:
        """Let a request work when it is its user's turn.

        Args:
            request: that gets a place.
            who: its sender.
            body: waits for its body: who sends it slowly has an open request, but no place. None:
                it is an upload, which its route receives without one.

        Raises:
            LimitReachedError: if the user has too many open requests.
        """
        request.user = user = who.user
        request.weight = self._weight(user)
        request.check_unsent = partial(self._check_unsent, user)
        close, patience_timer = self._open.open(user), None
        try:
            if body is not None:
                await body()
            self._charge_background(user)
            place = self._queue.place(user, cost=lambda: request.use.cost)
            async with place as request.gate:
                if body is None:
                    request.leave_gate()
                loop = asyncio.get_running_loop()
                patience_timer = loop.call_later(self._patience, place.free)
                yield
        finally:
            if patience_timer is not None:
                patience_timer.cancel()
            close()
            used = self.used.setdefault(user, Use())
            used.add(request.use)
            self._charged[user] += request.use.cost
            # What goes on in its name, such as the examination of an upload, counts too.
            request.use = used

    def _charge_background(self, user: str) -> None:
        """Charge what a user's requests have used after their end."""
        used = self.used.get(user)
        if used is not None and (cost := used.cost - self._charged[user]) > 0.0:
            self._charged[user] += cost
            self._queue.places.share.charge(user, cost)

    def _check_unsent(self, user: str) -> None:
        if self._unsent[user] > self.max_unsent:
            raise LimitReachedError(
                f"your clients have not read {self._unsent[user]} bytes of responses yet",
                retry_after=_UNSENT_RETRY_SECONDS,
            )

    @contextmanager
    def sending(self, request: RequestScope, size: int) -> Iterator[None]:
        """Count so many bytes of a response as not sent yet, during a block."""
        if request.user is None:
            yield
            return
        self._unsent[request.user] += size
        try:
            yield
        finally:
            self._unsent[request.user] -= size
            if not self._unsent[request.user]:
                del self._unsent[request.user]


class Timed(Coroutine[Any, Any, T]):
    """Work of a request, whose time on the event loop is noted.

    It is the CPU time of the loop's thread: another process on its core is not the request's doing.
    """

    def __init__(self, work: Coroutine[Any, Any, T], request: RequestScope) -> None:
        self._work, self._request = work, request

    def __await__(self) -> Generator[Any, Any, T]:
        # An iterator that can be sent to and thrown at is all that `await` uses.
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def __getattr__(self, name: str) -> Any:
        # The state of a coroutine, which asyncio reads of a task that it shows or ends.
        return getattr(self._work, name)

    def send(self, value: Any) -> Any:
        return self._step(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._work.throw, *error)

    def close(self) -> None:
        self._work.close()

    def _step(self, resume: Callable[..., Any], *args: Any) -> Any:
        begun = time.thread_time()
        try:
            return resume(*args)
        finally:
            seconds, request = time.thread_time() - begun, self._request
            request.use.loop_seconds += seconds
            if seconds > request.longest_step:
                request.longest_step = seconds


def make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task, as a factory of an event loop: one that a request starts is its work too."""
    context = options.get("context")
    request = current_request() if context is None else context.run(current_request)
    if request is not None and asyncio.iscoroutine(work):
        work = Timed(work, request)
    return asyncio.Task(work, loop=loop, **options)
