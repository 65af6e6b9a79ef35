"""Fair shares of something that users share: whoever has used least goes first."""

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")


class FairShare:
    """Virtual times of users: what each has used, divided by its weight.

    Start-time fair queuing (Goyal, Vin and Cheng, 1997), where the cost of a piece of work is known
    only once it is done. With tokens as costs it is the Virtual Token Counter (Sheng et al., 2024).

    Of waiting work, that of the user with the least virtual time is next. A user who returns begins
    where the active user begins who has used least: to have been idle is no advantage, and what was
    used while nobody else wanted it is no debt. With a credit, who has used less begins so much
    earlier at most: who asks for little now and then does not wait for a piece of everybody's. With
    a bound of debt, who has used much waits at most until each other user has used so much more.

    Args:
        credit: for having used less than others, in virtual time.
        max_debt: for having used more, in virtual time.
    """

    # Above so many users, those are dropped who begin as early as possible when they return.
    _MAX_REMEMBERED = 1000

    def __init__(self, credit: float = 0.0, max_debt: float = math.inf) -> None:
        self._credit, self._max_debt = credit, max_debt
        # Those that are not 1.
        self._weights: dict[str, float] = {}
        self._times: dict[str, float] = {}
        self._max_times = self._MAX_REMEMBERED
        # Virtual times at which the newest work of active users began.
        self._starts: dict[str, float] = {}
        self._num_open = Counter[str]()
        # Where those who return begin.
        self._now = 0.0

    def enter(self, user: str, weight: float = 1.0) -> None:
        """Count a piece of work, which waits or is being done until `leave`.

        Args:
            user: whose work it is.
            weight: of the user from now on, above 0: with twice the weight one gets twice as much,
                if both want it.
        """
        if weight != 1.0:
            self._weights[user] = weight
        else:
            self._weights.pop(user, None)
        if not self._num_open[user]:
            earliest = self._now - self._credit
            self._times[user] = max(self._times.get(user, earliest), earliest)
        self._num_open[user] += 1

    def leave(self, user: str) -> None:
        """Count a piece of work no longer."""
        self._num_open[user] -= 1
        # What else is open may wait for long: nobody who returns begins as early as this piece did.
        self._starts.pop(user, None)
        if self._num_open[user]:
            self._advance()
            return
        del self._num_open[user]
        if self._num_open:
            self._advance()
        else:
            # All is done: there is no debt.
            self._now = max(self._now, *self._times.values())
        if len(self._times) > self._max_times:
            earliest = self._now - self._credit
            self._times = {
                name: at
                for name, at in self._times.items()
                if at > earliest or name in self._num_open
            }
            self._max_times = max(self._MAX_REMEMBERED, 2 * len(self._times))

    def begin(self, user: str, cost: float = 0.0) -> float:
        """Begin a piece of an active user's work, or a part of it, of an estimated cost.

        Returns:
            The cost that was added, as of `charge`.
        """
        self._starts[user] = self._times[user]
        added = self.charge(user, cost)
        self._advance()
        return added

    def charge(self, user: str, cost: float) -> float:
        """Add to what a user has used, active or not; less than 0 corrects an estimate.

        Returns:
            The cost that was added: less where that was too much debt.
        """
        at, weight = self._times.get(user, self._now - self._credit), self._weights.get(user, 1.0)
        added = min(cost / weight, self._now + self._max_debt - at)
        self._times[user] = at + added
        return added * weight

    def time(self, user: str) -> float:
        """Return the virtual time of an active user."""
        return self._times[user]

    def next(self, users: Iterable[str]) -> str:
        """Return who is served next of some active users; the first of those that are equal."""
        return min(users, key=self.time)

    def _advance(self) -> None:
        begun = (self._starts.get(user, self._times[user]) for user in self._num_open)
        self._now = max(self._now, min(begun))


class Backlog(Generic[T]):
    """What waits, by user: each user's in the order in which it came.

    Args:
        share: says which user is next; its `enter` and `leave` are the caller's to call.
    """

    def __init__(self, share: FairShare) -> None:
        self._share = share
        self._items: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._items.values())

    @property
    def users(self) -> list[str]:
        """Those of whom something waits, in the order in which they began to wait."""
        return list(self._items)

    def count(self, user: str) -> int:
        """Return how much of a user waits."""
        return len(self._items.get(user, ()))

    def add(self, user: str, item: T, *, is_first: bool = False) -> None:
        """Add the last item of a user, or the first one."""
        items = self._items.setdefault(user, deque())
        (items.appendleft if is_first else items.append)(item)

    def remove(self, user: str, item: T) -> None:
        """Remove an item of a user, if it is here."""
        items = self._items.get(user, ())
        if item in items:
            self._items[user].remove(item)
            self._forget(user)

    def take(self, users: Iterable[str] | None = None) -> tuple[str, T]:
        """Remove and return the first item of who is next of some users, or of all; and who."""
        user = self._share.next(self._items if users is None else users)
        item = self._items[user].popleft()
        self._forget(user)
        return user, item

    def _forget(self, user: str) -> None:
        if not self._items[user]:
            del self._items[user]
