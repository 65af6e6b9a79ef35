"""Places that users share, for one event loop: a free one goes to who has used least."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable

from auctune.domain.fair_share import Backlog, FairShare

_SHARED_SECONDS = 1.0


class FairPlaces:
    """A number of places; a user's own work gets them in the order in which it came.

    Args:
        num_places: in all.
        credit, max_debt: for having used less, or more; see `FairShare`.
        keeps_one: whether the last free one of several is for who holds none: so there is one for
            who comes next, however long the others are held.
        max_shared: that a user gets within a second after another one has got a place: what all
            holders do in turns delays whoever comes; None: any number.
        now: a monotonic clock, in seconds.

    Attributes:
        share: what users have used; who takes a place begins and charges its work there.
    """

    def __init__(
        self,
        num_places: int,
        *,
        credit: float = 0.0,
        max_debt: float = math.inf,
        keeps_one: bool = False,
        max_shared: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.num_places = num_places
        self.share = FairShare(credit, max_debt)
        self._keeps_one = keeps_one
        self._max_shared = num_places if max_shared is None else max_shared
        self._now = now
        # Who got the newest place, and when; and the same of the newest one of anybody else.
        self._newest = self._newest_other = "", -math.inf
        self._num_free = num_places
        self._held = Counter[str]()
        self._waiting: Backlog[asyncio.Future[None]] = Backlog(self.share)

    @property
    def num_users_waiting(self) -> int:
        """Return how many users wait for a place."""
        return len(self._waiting.users)

    def num_waiting(self, user: str) -> int:
        """Return how many places a user waits for."""
        return self._waiting.count(user)

    def is_free(self, user: str) -> bool:
        """Return whether there is a place for a user who comes now."""
        held = self._held[user]
        is_kept = self._keeps_one and self._num_free == 1 and held > 0
        has_enough = held >= self._max_shared and self._is_shared(user)
        return self._num_free > 0 and not is_kept and not has_enough

    def _is_shared(self, user: str) -> bool:
        """Return whether another user has got a place a short while ago."""
        _, at = self._newest if self._newest[0] != user else self._newest_other
        return self._now() - at < _SHARED_SECONDS

    async def take(self, user: str, weight: float = 1.0) -> None:
        """Take a place when it is this user's turn, of a weight; `free` must follow."""
        self.share.enter(user, weight)
        if self.is_free(user):
            self._hold(user)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(user, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(user, turn)
                self.share.leave(user)
            else:
                # Cancelled after it got its place.
                self.free(user)
            raise

    def free(self, user: str) -> None:
        """Give a place back, which goes to whose turn it is."""
        self._num_free += 1
        self.end(user)

    def add(self) -> None:
        """Have one place more, until `end` takes the place of a `free`."""
        self._num_free += 1
        self._serve()

    def end(self, user: str) -> None:
        """Give a place back, of which there is one less then."""
        self.share.leave(user)
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
        self._serve()

    def _serve(self) -> None:
        while users := [one for one in self._waiting.users if self.is_free(one)]:
            following, turn = self._waiting.take(users)
            # One that was cancelled has not run since.
            if not turn.cancelled():
                self._hold(following)
                turn.set_result(None)

    def _hold(self, user: str) -> None:
        self._num_free -= 1
        self._held[user] += 1
        if user != self._newest[0]:
            self._newest_other = self._newest
        self._newest = user, self._now()
