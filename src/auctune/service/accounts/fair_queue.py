"""A queue for work that takes seconds of CPU: one item at a time, users in round robin."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from auctune.service.accounts.limits import QuotaExceededError

T = TypeVar("T")


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
