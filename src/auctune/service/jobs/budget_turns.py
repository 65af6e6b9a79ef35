"""Bids of one budget pass one after the other, whatever zones they are for."""

from collections.abc import Callable
from typing import TypeVar

from auctune.domain import Money
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.accounts.limits import KeyedLocks
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.zone import AnyZone

T = TypeVar("T")
Z = TypeVar("Z", bound=AnyZone)


class BudgetTurns:
    """Lets those of one budget pass one after the other.

    Args:
        spending: against budgets.
        is_alone: whether there is one actor only, which takes bids in turn by itself.
    """

    def __init__(self, spending: BudgetTracker, *, is_alone: bool) -> None:
        self._spending = spending
        self._is_alone = is_alone
        self._turns = KeyedLocks()

    def left(self, owner: str) -> Money | None:
        """What an owner may still pay; none: any amount."""
        return self._spending.remaining(owner)

    async def in_turn(
        self, owner: str, actor: ZoneActor[Z], check: Callable[[], None], run: Callable[[Z], T]
    ) -> T:
        """Actors decide side by side; what two of them take from one budget must not.

        Args:
            owner: whose budget it is.
            actor: decides.
            check: that all is there which the decision is about, called on the actor just before
                it: a turn may be long in coming. What it raises, this raises.
            run: decides.
        """

        def checked(zone: Z) -> T:
            check()
            return run(zone)

        names = [one.key for one in self._spending.accounts(owner) if one.budget is not None]
        if not names or self._is_alone:
            return await actor.call(checked)
        async with self._turns.acquire(names):
            return await actor.call(checked)
