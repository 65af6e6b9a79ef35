"""Budgets of users and teams: payments within a rolling window, and amounts on hold.

Payments and holds count against a budget; bids do not. A hold counts until it is released, however
old it is. A refund for a payment that has left the window does not raise the budget.

Windows are kept in memory for accounts with a budget only. When an account gets a budget, its
payments are read from the ledger while new ones arrive; the event number keeps any from counting
twice.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sqlalchemy import Engine, func, select

from auctune.domain import Money
from auctune.domain.money import STEP, ZERO
from auctune.service.accounts.limits import KeyedLocks
from auctune.service.accounts.registry import Account, AccountRegistry
from auctune.service.ledger import Entry, hold_account, user_account
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.committer import durable

_USER = user_account("")
_HOLD = hold_account("")


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment of a user, or a refund if the amount is negative."""

    seq: int
    user: str
    amount: Money
    at: float


@dataclass
class _RollingWindow:
    paid: deque[Payment] = field(default_factory=deque)
    total: Money = ZERO

    def add(self, payment: Payment) -> None:
        self.paid.append(payment)
        self.total += payment.amount

    def drop_before(self, time: float) -> None:
        while self.paid and self.paid[0].at <= time:
            self.total -= self.paid.popleft().amount


class BudgetTracker:
    """Recent payments and holds by user and team. Thread-safe."""

    def __init__(
        self, directory: AccountRegistry, now: Callable[[], float], reader: Engine
    ) -> None:
        self._directory = directory
        self._now = now
        self._reader = reader
        self._lock = threading.Lock()
        self._windows: dict[str, _RollingWindow] = {}
        # Holds of all users, so that they count as soon as a user gets a budget.
        self._holds = _stored_holds(reader)
        for account in (*directory.teams(), *directory.users()):
            if account.budget is not None:
                self._read(account)

    def record(self, entries: Iterable[Entry], at: float, seq: int) -> None:
        for entry in entries:
            if entry.account.startswith(_USER):
                self._add(Payment(seq, entry.account.removeprefix(_USER), entry.amount, at))
            elif entry.account.startswith(_HOLD):
                self._add_hold(entry.account.removeprefix(_HOLD), entry.amount)

    def remaining(self, user: str) -> Money | None:
        """Return what a user may still pay, within its own and its team's budget, or None."""
        budgets = [self.of(account) for account in self.accounts(user)]
        return min((remaining for _, remaining in filter(None, budgets)), default=None)

    def of(self, account: Account) -> tuple[Money, Money] | None:
        """Return the amounts spent and remaining of an account's budget, or None without one."""
        budget = account.budget
        if budget is None:
            return None
        with self._lock:
            spent = ZERO
            window = self._windows.get(account.key)
            if window is not None:
                window.drop_before(self._now() - budget.seconds)
                # Refunds for payments of an earlier window do not raise the budget.
                spent = max(ZERO, window.total)
            held = (sum_ for user, sum_ in self._holds.items() if self._is_of(user, account))
            spent += sum(held, ZERO)
        return spent, max(ZERO, budget.amount - spent)

    def accounts(self, user: str) -> tuple[Account, ...]:
        """Return the accounts of a user and of its team."""
        account = self._directory.user(user)
        if account is None:
            return ()
        team = None if account.team is None else self._directory.team(account.team)
        return (account,) if team is None else (account, team)

    async def reload(self, account: Account, committer: Committer) -> None:
        """Read an account's payments from the ledger; for a new budget, or a change of members."""
        with self._lock:
            if account.budget is None:
                self._windows.pop(account.key, None)
                return
            # Payments from now on are collected here; the empty commit flushes earlier ones.
            self._windows.setdefault(account.key, _RollingWindow())
        await durable(committer, WriteBatch())
        await asyncio.to_thread(self._read, account)

    def _add(self, payment: Payment) -> None:
        for account in self.accounts(payment.user):
            with self._lock:
                if account.budget is not None:
                    window = self._windows.setdefault(account.key, _RollingWindow())
                    window.add(payment)
                    window.drop_before(payment.at - account.budget.seconds)

    def _add_hold(self, user: str, amount: Money) -> None:
        with self._lock:
            held = self._holds.get(user, ZERO) + amount
            if held:
                self._holds[user] = held
            else:
                self._holds.pop(user, None)

    def _is_of(self, user: str, account: Account) -> bool:
        member = self._directory.user(user)
        return member is not None and account.key in (member.key, f"team {member.team}")

    def _read(self, account: Account) -> None:
        assert account.budget is not None
        users = [user.id for user in self._directory.users() if self._is_of(user.id, account)]
        stored = _stored_payments(self._reader, users, self._now() - account.budget.seconds)
        with self._lock:
            seqs = {payment.seq for payment in stored}
            recent = self._windows.get(account.key, _RollingWindow()).paid
            window = self._windows[account.key] = _RollingWindow()
            for payment in (*stored, *(one for one in recent if one.seq not in seqs)):
                window.add(payment)


class BudgetLocks:
    """Serializes decisions that draw on one budget: the actors of zones run in parallel.

    With a single zone (`is_single`), its actor serializes its decisions already.
    """

    def __init__(self, budgets: BudgetTracker, *, is_single: bool) -> None:
        self._budgets = budgets
        self._is_single = is_single
        self._locks = KeyedLocks()

    def remaining(self, user: str) -> Money | None:
        """Return what a user may still pay, or None without a budget."""
        return self._budgets.remaining(user)

    @asynccontextmanager
    async def acquire(self, user: str) -> AsyncIterator[None]:
        accounts = [] if self._is_single else self._budgets.accounts(user)
        async with self._locks.acquire(one.key for one in accounts if one.budget is not None):
            yield


def _stored_payments(reader: Engine, users: list[str], since: float) -> list[Payment]:
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
