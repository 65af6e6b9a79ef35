"""The gate before the routes: so many requests work at once, of who has used least first."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Self, TypeVar

from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import OpenLimiter, QuotaExceededError
from auctune.service.fair_queue import FairQueue
from auctune.service.request_scope import RequestScope, Use, current_request

T = TypeVar("T")

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
            QuotaExceededError: if the user has too many open requests.
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
            raise QuotaExceededError(
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
        # State by which tasks are shown, and told apart from those that have not begun.
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
