"""Budgets of users and teams: payments within their windows, and amounts on hold.

Payments and holds count, never bids. A hold counts as long as it is there, however long ago it was
made; what is released counts no more, and is no further budget.

Only accounts with a budget are kept in memory. One that gets a budget is read from the ledger, and
what is paid meanwhile is kept beside: an event counts once, by its number in the log.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlalchemy import Engine, func, select

from auctune.domain import Money
from auctune.domain.money import STEP, ZERO
from auctune.service.accounts.registry import Account, AccountRegistry
from auctune.service.ledger import Entry, hold_account, user_account
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.committer import durable

_USER = user_account("")
_HOLD = hold_account("")


@dataclass(frozen=True, slots=True)
class Payment:
    """What an event made a user pay; less than nothing: what came back.

    Attributes:
        seq: of the event.
        user: user id.
        amount: money.
        at: unix time.
    """

    seq: int
    user: str
    amount: Money
    at: float


@dataclass
class _RollingWindow:
    """Payments within a span, and their sum."""

    paid: deque[Payment] = field(default_factory=deque)
    total: Money = ZERO

    def add(self, one: Payment) -> None:
        self.paid.append(one)
        self.total += one.amount

    def drop_before(self, time: float) -> None:
        while self.paid and self.paid[0].at <= time:
            self.total -= self.paid.popleft().amount


class BudgetTracker:
    """Payments of late, by user and team; for any number of threads.

    Args:
        directory: knows budgets and teams.
        now: tells unix time.
        reader: of the store, to read the ledger of accounts that have a budget.
    """

    def __init__(
        self, directory: AccountRegistry, now: Callable[[], float], reader: Engine
    ) -> None:
        self._directory = directory
        self._now = now
        self._reader = reader
        self._lock = threading.Lock()
        self._spans: dict[str, _RollingWindow] = {}
        # Of all users: whoever gets a budget has its holds at once.
        self._holds = _stored_holds(reader)
        for account in (*directory.teams(), *directory.users()):
            if account.budget is not None:
                self._read(account)

    def record(self, entries: Iterable[Entry], at: float, seq: int) -> None:
        """Take over the entries of an event."""
        for entry in entries:
            if entry.account.startswith(_USER):
                self._add(Payment(seq, entry.account.removeprefix(_USER), entry.amount, at))
            elif entry.account.startswith(_HOLD):
                self._add_hold(entry.account.removeprefix(_HOLD), entry.amount)

    def remaining(self, user: str) -> Money | None:
        """What a user may still pay, by its own budget and its team's; none: any amount."""
        found = [self.of(account) for account in self.accounts(user)]
        return min((left for _, left in filter(None, found)), default=None)

    def of(self, account: Account) -> tuple[Money, Money] | None:
        """What counts against a budget, and what is left of it; none: it has no budget."""
        budget = account.budget
        if budget is None:
            return None
        with self._lock:
            spent = ZERO
            span = self._spans.get(account.key)
            if span is not None:
                span.drop_before(self._now() - budget.seconds)
                # What came back for payments of an earlier span is no further budget.
                spent = max(ZERO, span.total)
            held = (sum_ for user, sum_ in self._holds.items() if self._is_of(user, account))
            spent += sum(held, ZERO)
        return spent, max(ZERO, budget.amount - spent)

    def accounts(self, user: str) -> tuple[Account, ...]:
        """A user and its team."""
        account = self._directory.user(user)
        if account is None:
            return ()
        team = None if account.team is None else self._directory.team(account.team)
        return (account,) if team is None else (account, team)

    async def reload(self, account: Account, committer: Committer) -> None:
        """An account, or who belongs to it, has changed: its payments are read from the ledger."""
        with self._lock:
            if account.budget is None:
                self._spans.pop(account.key, None)
                return
            # What is paid from now on is kept; what was paid before is on disk after this.
            self._spans.setdefault(account.key, _RollingWindow())
        await durable(committer, WriteBatch())
        await asyncio.to_thread(self._read, account)

    def _add(self, paid: Payment) -> None:
        for account in self.accounts(paid.user):
            with self._lock:
                if account.budget is not None:
                    span = self._spans.setdefault(account.key, _RollingWindow())
                    span.add(paid)
                    span.drop_before(paid.at - account.budget.seconds)

    def _add_hold(self, user: str, amount: Money) -> None:
        with self._lock:
            left = self._holds.get(user, ZERO) + amount
            if left:
                self._holds[user] = left
            else:
                self._holds.pop(user, None)

    def _is_of(self, user: str, account: Account) -> bool:
        found = self._directory.user(user)
        return found is not None and account.key in (found.key, f"team {found.team}")

    def _read(self, account: Account) -> None:
        assert account.budget is not None
        users = [user.id for user in self._directory.users() if self._is_of(user.id, account)]
        stored = _stored(self._reader, users, self._now() - account.budget.seconds)
        with self._lock:
            known = {paid.seq for paid in stored}
            kept = self._spans.get(account.key, _RollingWindow()).paid
            span = self._spans[account.key] = _RollingWindow()
            for paid in (*stored, *(one for one in kept if one.seq not in known)):
                span.add(paid)


def _stored(reader: Engine, users: list[str], since: float) -> list[Payment]:
    """Payments of users on record, the oldest first."""
    table = tables.entries
    chosen = (
        select(table.c.seq, table.c.account, table.c.amount, table.c.at)
        .where(table.c.account.in_([user_account(user) for user in users]), table.c.at > since)
        .order_by(table.c.id)
    )
    with reader.connect() as connection:
        return [
            Payment(row.seq, row.account.removeprefix(_USER), row.amount * STEP, row.at)
            for row in connection.execute(chosen)
        ]


def _stored_holds(reader: Engine) -> dict[str, Money]:
    """What is set aside on record, by user."""
    table = tables.entries
    total = func.sum(table.c.amount)
    chosen = (
        select(table.c.account, total.label("total"))
        .where(table.c.account.startswith(_HOLD, autoescape=True))
        .group_by(table.c.account)
        .having(total != 0)
    )
    with reader.connect() as connection:
        return {
            row.account.removeprefix(_HOLD): int(row.total) * STEP
            for row in connection.execute(chosen)
        }
