"""What users and teams paid within their budgets' spans: payments and holds, never bids."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from decimal import Decimal

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.service.access.directory import Account, Directory
from auctune.service.ledger.entry import Entry, user_account

_USER = user_account("")


class Spending:
    """Payments of late, by user and team; for any number of threads.

    Args:
        directory: knows budgets and teams.
        now: tells unix time.
        past: (account, amount, at) of earlier entries, the oldest first; those of users count.
    """

    def __init__(
        self,
        directory: Directory,
        now: Callable[[], float],
        past: Iterable[tuple[str, Decimal, float]] = (),
    ) -> None:
        self._directory = directory
        self._now = now
        self._lock = threading.Lock()
        self._paid: dict[str, deque[tuple[float, Money]]] = {}
        for account, amount, at in past:
            self._add(account, amount, at)

    def note(self, entries: Iterable[Entry], at: float) -> None:
        """Take over entries of the ledger."""
        for entry in entries:
            self._add(entry.account, entry.amount, at)

    def left(self, user: str) -> Money | None:
        """What a user may still pay, by its own budget and its team's; none: any amount."""
        account = self._directory.user(user)
        if account is None:
            return None
        team = None if account.team is None else self._directory.team(account.team)
        parts = [
            self._left_of(key, owner)
            for key, owner in ((f"user {user}", account), (f"team {account.team}", team))
            if owner is not None and owner.budget is not None
        ]
        return min(parts) if parts else None

    def _left_of(self, key: str, account: Account) -> Money:
        assert account.budget is not None
        since = self._now() - account.budget.seconds
        with self._lock:
            paid = self._paid.get(key, deque())
            spent = sum((amount for at, amount in paid if at > since), ZERO)
        return max(ZERO, account.budget.amount - spent)

    def _add(self, account: str, amount: Money, at: float) -> None:
        if not account.startswith(_USER):
            return
        user = account.removeprefix(_USER)
        known = self._directory.user(user)
        self._keep(f"user {user}", known, amount, at)
        if known is not None and known.team is not None:
            self._keep(f"team {known.team}", self._directory.team(known.team), amount, at)

    def _keep(self, key: str, account: Account | None, amount: Money, at: float) -> None:
        if account is None or account.budget is None:
            return
        with self._lock:
            paid = self._paid.setdefault(key, deque())
            paid.append((at, amount))
            while paid and paid[0][0] <= at - account.budget.seconds:
                paid.popleft()
