"""Budgets of users, teams and keys: payments within a window, holds, reservations, alerts.

A key's payments and holds are those of jobs that were submitted with it, and of answers.

Payments and holds count against a budget; bids do not. A hold counts until it is released, however
old it is. Reservations, of answers that are being generated, are in memory only: they lower what
remains, and are no part of what was spent. A refund for a payment that has left the window does not
raise the budget.

Windows are kept in memory for accounts with a budget only. When an account gets a budget, its
payments are read from the ledger while new ones arrive; the event number keeps any from counting
twice.

An alert is recorded when 80% and 100% of a budget are reached, once each per period: stored in the
transaction of the payment or hold that reached it, and marked once its webhooks were delivered. So
a restart neither loses an alert nor raises it again.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter
from sqlalchemy import Column, Connection, Engine, Row, func, select

from auctune.domain import AuctuneError, Money
from auctune.domain.money import STEP, ZERO, format_money
from auctune.service.accounts.limits import KeyedLocks
from auctune.service.accounts.registry import Account, AccountRegistry
from auctune.service.ledger import Entry, hold_account, user_account
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.event_log import EVENT_COLUMNS, Query, ZoneEvent, read_row
from auctune.service.storage.queries import read_values

PERCENTAGES = (80, 100)
_PREFIX = "budget-alert:"


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A share of a budget was reached.

    Attributes:
        owner: `Account.key` of whose budget it is.
        percent: the share, one of `PERCENTAGES`.
        seq: number of the event that reached it.
        spent: what was spent then, in the last `seconds`, with amounts on hold.
        is_delivered: whether its webhooks were delivered, or dropped.
    """

    owner: str
    percent: int
    seq: int
    at: float
    spent: Money
    amount: Money
    seconds: float
    is_delivered: bool = False

    @property
    def id(self) -> str:
        """Id of the notification, the same at every attempt."""
        return f"evt-{self.seq}-{self.owner.partition(' ')[0]}-{self.percent}"

    @property
    def slot(self) -> tuple[str, int]:
        """What the newest alert is kept of: the owner and the share."""
        return self.owner, self.percent

    def row(self) -> dict[str, str]:
        """Return the row of the table `meta` that stores the alert."""
        name = f"{_PREFIX}{self.owner}:{self.percent}"
        return {"name": name, "value": _ADAPTER.dump_json(self).decode()}

    def view(self) -> dict[str, Any]:
        """Return the fields that the API shows."""
        shown = {"id": self.id, **asdict(self)}
        for name in ("seq", "is_delivered"):
            del shown[name]
        return {**shown, "at": int(self.at), "spent": str(self.spent), "amount": str(self.amount)}


_ADAPTER = TypeAdapter(BudgetAlert)


class BudgetAlerts:
    """The newest alert of each budget and share. Thread-safe."""

    def __init__(self, reader: Engine) -> None:
        self._lock = threading.Lock()
        stored = map(_ADAPTER.validate_json, read_values(reader, _PREFIX).values())
        self._newest = {alert.slot: alert for alert in stored}
        self._undelivered = {
            alert.id: alert for alert in self._newest.values() if not alert.is_delivered
        }

    def reach(self, account: Account, spent: Money, at: float, seq: int) -> list[BudgetAlert]:
        """Return the new alerts of an account that has spent so much; the caller stores them."""
        budget, found = account.budget, []
        assert budget is not None
        with self._lock:
            for percent in PERCENTAGES:
                is_reached = 100 * spent >= percent * budget.amount > 0
                if is_reached and self._current(account, percent, at) is None:
                    alert = BudgetAlert(
                        account.key, percent, seq, at, spent, budget.amount, budget.seconds
                    )
                    self._newest[alert.slot] = alert
                    found.append(alert)
        return found

    def of(self, accounts: Iterable[Account], now: float) -> list[BudgetAlert]:
        """Return the alerts of accounts' present budgets and periods."""
        with self._lock:
            found = [self._current(of, share, now) for of in accounts for share in PERCENTAGES]
        return [alert for alert in found if alert is not None]

    def _current(self, account: Account, percent: int, now: float) -> BudgetAlert | None:
        alert, budget = self._newest.get((account.key, percent)), account.budget
        if alert is None or budget is None:
            return None
        is_same_budget = (alert.amount, alert.seconds) == (budget.amount, budget.seconds)
        return alert if is_same_budget and alert.at > now - budget.seconds else None

    def committed(self, alerts: Iterable[BudgetAlert]) -> None:
        """Release alerts for delivery, as they are stored now."""
        with self._lock:
            self._undelivered.update({alert.id: alert for alert in alerts})

    def undelivered(self) -> list[BudgetAlert]:
        with self._lock:
            return list(self._undelivered.values())

    def delivered(self, alert: BudgetAlert) -> BudgetAlert | None:
        """Mark an alert as delivered; return what to store, or None if a newer one replaced it."""
        with self._lock:
            self._undelivered.pop(alert.id, None)
            if self._newest.get(alert.slot) != alert:
                return None
            marked = self._newest[alert.slot] = replace(alert, is_delivered=True)
            return marked


T = TypeVar("T", str, int)

_USER = user_account("")
_HOLD = hold_account("")
# Fewer than the parameters that a statement of SQLite may have.
_ROWS_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment of a user for a job or for answers, or a refund if the amount is negative."""

    seq: int
    user: str
    job: str | None
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


class BudgetExceededError(AuctuneError):
    """Too little is left of a budget for answers."""


class BudgetTracker:
    """Recent payments and holds by user, team and key. Thread-safe."""

    def __init__(
        self, directory: AccountRegistry, now: Callable[[], float], reader: Engine
    ) -> None:
        self.alerts = BudgetAlerts(reader)
        self._directory = directory
        self._now = now
        self._reader = reader
        self._lock = threading.Lock()
        self._windows: dict[str, _RollingWindow] = {}
        # By `Account.key`, of all accounts: they count as soon as one gets a budget.
        self._holds: dict[str, Money] = {}
        self._reserved: dict[str, Money] = {}
        for user, key, amount in _stored_holds(reader):
            self._add_hold(user, key, amount)
        keys = [key.account for key in directory.all_keys()]
        for account in (*directory.teams(), *directory.users(), *keys):
            if account.budget is not None:
                self._read(account)

    def record(
        self, event: ZoneEvent, entries: Iterable[Entry], key: str | None
    ) -> list[BudgetAlert]:
        """Record the entries of an event; return the alerts of budgets that it raises.

        `key` is the id of the key that the job or the answers were requested with, or None.
        """
        payers = set()
        for entry in entries:
            if entry.account.startswith(_USER):
                user = entry.account.removeprefix(_USER)
                self._add(Payment(event.seq, user, event.job, entry.amount, event.at), key)
            elif entry.account.startswith(_HOLD):
                user = entry.account.removeprefix(_HOLD)
                self._add_hold(user, key, entry.amount)
            else:
                continue
            if entry.amount > ZERO:
                payers.add(user)
        reached = []
        for user in payers:
            for account in self.accounts(user, key):
                sums = self.of(account)
                if sums is not None:
                    reached += self.alerts.reach(account, sums[0], event.at, event.seq)
        return reached

    def remaining(self, user: str, key: str | None = None) -> Money | None:
        """Return what may still be paid, by the budgets of a user, its team and a key, or None."""
        budgets = [self.of(account) for account in self.accounts(user, key)]
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
            spent += self._holds.get(account.key, ZERO)
            reserved = self._reserved.get(account.key, ZERO)
        return spent, max(ZERO, budget.amount - spent - reserved)

    def reserve(self, user: str, key: str | None, amount: Money) -> Callable[[], None]:
        """Reserve an amount of all budgets of a user and a key; return what releases it.

        To be called where payments are decided; see `BudgetLocks`.

        Raises:
            BudgetExceededError: if less remains of one of them.
        """
        remaining = self.remaining(user, key)
        if remaining is not None and (not remaining or remaining < amount):
            if not remaining:
                raise BudgetExceededError("nothing is left of your budget")
            raise BudgetExceededError(
                f"the request may cost {format_money(amount)}, and {format_money(remaining)} is "
                "left of your budget beside your other requests; ask for fewer tokens or answers"
            )
        names = [one.key for one in self.accounts(user, key)]
        self._add_reserved(names, amount)
        return lambda: self._add_reserved(names, -amount)

    def _add_reserved(self, names: Iterable[str], amount: Money) -> None:
        with self._lock:
            for name in names:
                reserved = self._reserved.pop(name, ZERO) + amount
                if reserved:
                    self._reserved[name] = reserved

    def accounts(self, user: str, key: str | None = None) -> tuple[Account, ...]:
        """Return the accounts of a user, of its team, and of a key."""
        account = self._directory.user(user)
        if account is None:
            return ()
        team = None if account.team is None else self._directory.team(account.team)
        record = None if key is None else self._directory.key(key)
        others = (team, None if record is None else record.account)
        return (account, *(one for one in others if one is not None))

    async def reload(self, account: Account, committer: Committer) -> None:
        """Read an account's payments from the ledger; for a new budget, or a change of members."""
        with self._lock:
            if account.kind == "team":
                members = self._directory.members(account.key)
                held = (self._holds.get(f"user {user}", ZERO) for user in members)
                self._holds[account.key] = sum(held, ZERO)
            if account.budget is None:
                self._windows.pop(account.key, None)
                return
            # Payments from now on are collected here; the empty commit flushes earlier ones.
            self._windows.setdefault(account.key, _RollingWindow())
        await durable(committer, WriteBatch())
        await asyncio.to_thread(self._read, account)

    def _add(self, payment: Payment, key: str | None) -> None:
        with self._lock:
            for account in self.accounts(payment.user, key):
                if account.budget is not None:
                    window = self._windows.setdefault(account.key, _RollingWindow())
                    window.add(payment)
                    window.drop_before(payment.at - account.budget.seconds)

    def _add_hold(self, user: str, key: str | None, amount: Money) -> None:
        with self._lock:
            for account in self.accounts(user, key):
                held = self._holds.pop(account.key, ZERO) + amount
                if held:
                    self._holds[account.key] = held

    def _read(self, account: Account) -> None:
        assert account.budget is not None
        users = self._directory.members(account.key)
        since = self._now() - account.budget.seconds
        stored = _stored_payments(self._reader, users, since)
        if account.kind == "key":
            stored = _of_key(self._reader, stored, account.id)
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

    def remaining(self, user: str, key: str | None) -> Money | None:
        """Return what a user may still pay for jobs of a key, or None without a budget."""
        return self._budgets.remaining(user, key)

    def reserve(self, user: str, key: str | None, amount: Money) -> Callable[[], None]:
        """Reserve an amount while the locks are held; see `BudgetTracker.reserve`."""
        return self._budgets.reserve(user, key, amount)

    @asynccontextmanager
    async def acquire(self, user: str, key: str | None) -> AsyncIterator[None]:
        accounts = [] if self._is_single else self._budgets.accounts(user, key)
        async with self._locks.acquire(one.key for one in accounts if one.budget is not None):
            yield


def _stored_payments(reader: Engine, users: list[str], since: float) -> list[Payment]:
    table = tables.entries
    chosen = (
        select(table.c.seq, table.c.job, table.c.account, table.c.amount, table.c.at)
        .where(table.c.account.in_([user_account(user) for user in users]), table.c.at > since)
        .order_by(table.c.id)
    )
    with reader.connect() as connection:
        return [
            Payment(row.seq, row.account.removeprefix(_USER), row.job, row.amount * STEP, row.at)
            for row in connection.execute(chosen)
        ]


def _of_key(reader: Engine, payments: list[Payment], key: str) -> list[Payment]:
    """Return the payments for jobs and answers that were requested with a key."""
    with reader.connect() as connection:
        of_jobs = _keys_of_jobs(connection, {one.job for one in payments if one.job is not None})
        of_events = _keys_of_events(connection, {one.seq for one in payments if one.job is None})
    return [
        one
        for one in payments
        if key == (of_events.get(one.seq) if one.job is None else of_jobs.get(one.job))
    ]


def _stored_holds(reader: Engine) -> list[tuple[str, str | None, Money]]:
    """Return the user, the key and the amount of the hold of each job that has one."""
    table = tables.entries
    total = func.sum(table.c.amount)
    chosen = (
        select(table.c.account, table.c.job, total.label("total"))
        .where(table.c.account.startswith(_HOLD, autoescape=True))
        .group_by(table.c.account, table.c.job)
        .having(total != 0)
    )
    with reader.connect() as connection:
        rows = connection.execute(chosen).all()
        keys = _keys_of_jobs(connection, {row.job for row in rows})
    return [
        (row.account.removeprefix(_HOLD), keys.get(row.job), int(row.total) * STEP) for row in rows
    ]


def _keys_of_jobs(connection: Connection, jobs: Collection[str]) -> dict[str, str | None]:
    """Return the keys that jobs were submitted with."""
    of = tables.jobs.c
    rows = _read_some(connection, select(of.id, of.body), of.id, jobs)
    return {row.id: orjson.loads(row.body)["request"].get("key") for row in rows}


def _keys_of_events(connection: Connection, seqs: Collection[int]) -> dict[int, str | None]:
    """Return the keys in the bodies of events."""
    found = map(read_row, _read_some(connection, EVENT_COLUMNS, tables.events.c.seq, seqs))
    return {event.seq: orjson.loads(event.body).get("key") for event in found}


def _read_some(
    connection: Connection, query: Query, column: Column[T], values: Collection[T]
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yield the rows of a query with some values of a column."""
    chosen = sorted(values)
    for first in range(0, len(chosen), _ROWS_PER_QUERY):
        batch = chosen[first : first + _ROWS_PER_QUERY]
        yield from connection.execute(query.where(column.in_(batch)))
