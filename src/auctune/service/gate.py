"""The gate before the routes: so many requests work at once, of who has used least first."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.fair_queue import FairQueue
from auctune.service.request_scope import RequestScope, Use

T = TypeVar("T")

# Of the mean time of a request, the share of the newest.
_NEWEST_SHARE = 0.05


class Gate:
    """Lets so many requests work at once, and bounds how many a user has open.

    A request leaves its place when it begins to wait for something that is shared beyond, for its
    body or for a client that reads slowly. All that it has used by its end counts.

    Args:
        num_places: requests that work at once.
        max_open: requests of a user that are not answered yet.
        weight: of a user; see `FairQueue`.

    Attributes:
        used: by user, since the start of the service.
    """

    def __init__(
        self, num_places: int, max_open: int, weight: Callable[[str], float] | None = None
    ) -> None:
        self.used: dict[str, Use] = {}
        self._queue = FairQueue("requests", num_places, max_open, weight)
        self._max_open = max_open
        self._num_open = Counter[str]()
        self._mean_seconds = 0.0

    @asynccontextmanager
    async def enter(self, request: RequestScope, user: str) -> AsyncIterator[None]:
        """Let a request of a user work when it is its turn.

        Raises:
            QuotaExceededError: if the user has too many open requests.
        """
        if self._num_open[user] >= self._max_open:
            raise QuotaExceededError(
                f"you have {self._max_open} open requests, the maximum",
                # One of them is answered in so many seconds.
                retry_after=self._mean_seconds / self._max_open,
            )
        self._num_open[user] += 1
        begun = time.monotonic()
        try:
            place = self._queue.place(user, cost=lambda: request.use.cost, is_limited=False)
            async with place as request.gate:
                request.user = user
                yield
        finally:
            self._num_open[user] -= 1
            if not self._num_open[user]:
                del self._num_open[user]
            self._mean_seconds += _NEWEST_SHARE * (time.monotonic() - begun - self._mean_seconds)
            self.used.setdefault(user, Use()).add(request.use)


class Timed(Awaitable[T]):
    """Awaits a coroutine, and adds the time that it takes on the event loop to what is used."""

    def __init__(self, work: Coroutine[Any, Any, T], use: Use) -> None:
        self._work, self._use = work, use

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        resume = partial(next, steps)
        while True:
            begun = time.perf_counter()
            try:
                waits_for = resume()
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                self._use.loop_seconds += time.perf_counter() - begun
            try:
                resume = partial(steps.send, (yield waits_for))
            except BaseException as error:
                resume = partial(steps.throw, error)
