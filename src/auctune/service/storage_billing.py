"""Charges for stored files: what each user's files cost in a day (UTC), once the day is over.

A charge is an event of the first zone, `storage.used`. It follows from the table of files alone,
which keeps the rows of deleted files: what happened while the service was down is charged later,
day by day. How far a user was charged is stored in the transaction of the charge, so that no day
counts twice. What is less than the smallest amount of money is carried to the user's next charge.

A price holds until the start of a service with another one: a day is then charged in two parts.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import orjson
import structlog
from pydantic import TypeAdapter
from sqlalchemy import Engine

from auctune.domain import AuctuneError, Money
from auctune.domain.money import ZERO
from auctune.service.accounts.budgets import BudgetExceededError, BudgetTracker
from auctune.service.accounts.registry import AccountRegistry
from auctune.service.event_writer import STORAGE_CHARGED
from auctune.service.storage import Committer, Queries, WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.queries import read_values
from auctune.service.zones.core.events import StorageUsed, storage_charge
from auctune.service.zones.core.gateway import AnyGateway
from auctune.service.zones.core.zone import Zone

_DAY = 86_400
# Days that are charged for later, after a service was down.
_MAX_DAYS = 32
_NAME = "storage-charges"
# Charges of one command, which other commands of the zone wait for.
_CHARGES = 100

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Charged:
    """All users have been charged until a time, in unix seconds; `price` holds from there on."""

    until: int
    price: Money


_ADAPTER = TypeAdapter(_Charged)


class StorageBilling:
    """Charges users for their stored files.

    Args:
        price: of 10^9 bytes for 30 days, from now on.
        zone: whose log has the charges.
    """

    def __init__(
        self,
        price: Money,
        zone: AnyGateway,
        accounts: AccountRegistry,
        spending: BudgetTracker,
        queries: Queries,
        committer: Committer,
        reader: Engine,
        now: Callable[[], float],
    ) -> None:
        self.price = price
        self._zone = zone
        self._accounts = accounts
        self._spending = spending
        self._queries = queries
        self._committer = committer
        self._reader = reader
        self._now = now
        stored = read_values(reader, _NAME).get("")
        # Without a row nothing has ever been charged.
        self._charged = _Charged(0, ZERO) if stored is None else _ADAPTER.validate_json(stored)
        self._lock = asyncio.Lock()

    def check_upload(self, user: str) -> None:
        """Refuse an upload that its owner could not pay for.

        Raises:
            BudgetExceededError: if files cost money, and nothing is left of the user's budget or
                its team's.
        """
        if not self.price:
            return
        # What answers in progress have reserved is not spent yet.
        for account in self._spending.accounts(user, None):
            sums = self._spending.of(account)
            if sums is not None and account.budget is not None and sums[0] >= account.budget.amount:
                raise BudgetExceededError(
                    "your budget is spent, and stored files cost money: delete files, or ask for a "
                    "larger budget; those that are stored are kept and charged for"
                )

    async def charge(self) -> None:
        """Charge all users for the periods that are over."""
        async with self._lock:
            await self._skip_downtime()
            while (following := self._next()) is not None:
                charged = self._charged
                if charged.price and charged.until < following.until:
                    # Files that were stored or deleted before are in the table from here on.
                    await durable(self._committer, WriteBatch())
                    await self._charge_period(charged.until, following.until, charged.price)
                await self._store(following)

    async def run(self, seconds: float, unready_reason: Callable[[], str | None]) -> None:
        """Charge what is due every so many seconds while the service is ready, until cancelled."""
        while True:
            if unready_reason() is None:
                try:
                    await self.charge()
                except AuctuneError as error:
                    _log.warning("storage could not be charged", reason=str(error))
            await asyncio.sleep(seconds)

    async def _skip_downtime(self) -> None:
        """Charge no day of a longer time than a service is ever down: the clock was wrong then."""
        charged, oldest = self._charged, (int(self._now()) // _DAY - _MAX_DAYS) * _DAY
        if charged.price and charged.until < oldest:
            _log.warning(
                "storage was charged so long ago that the clock must have been wrong; not charged",
                since=charged.until,
                until=oldest,
            )
            await self._store(_Charged(oldest, charged.price))

    def _next(self) -> _Charged | None:
        """Return how far to charge users next, and the price from there on, or None."""
        charged, now = self._charged, int(self._now())
        midnight = (charged.until // _DAY + 1) * _DAY
        if charged.price and midnight <= now:
            return _Charged(midnight, charged.price)
        if charged.price != self.price:
            # A clock that was set back does not shorten what has been charged.
            return _Charged(max(charged.until, now), self.price)
        return None

    async def _charge_period(self, since: int, until: int, price: Money) -> None:
        stored = await asyncio.to_thread(read_values, self._reader, STORAGE_CHARGED)
        earlier = {user: orjson.loads(value) for user, value in stored.items()}
        # Later than `since` if the service ended before all users were charged.
        begins = {user: max(since, one["until"]) for user, one in earlier.items()}
        for begin in sorted({since, *begins.values()}):
            if begin >= until:
                break
            used = await asyncio.to_thread(self._queries.storage, begin, until)
            charges = [
                self._charge(user, begin, until, byte_seconds, price, earlier.get(user, {}))
                for user, byte_seconds in sorted(used.items())
                if begins.get(user, since) == begin
            ]
            for first in range(0, len(charges), _CHARGES):
                some = charges[first : first + _CHARGES]
                await self._zone.actor.call(partial(Zone.charge_storage, charges=some))

    def _charge(
        self,
        user: str,
        since: int,
        until: int,
        byte_seconds: int,
        price: Money,
        earlier: Mapping[str, int],
    ) -> StorageUsed:
        account, before = self._accounts.user(user), earlier.get("carried", 0)
        amount, carried = storage_charge(byte_seconds, price, before)
        return StorageUsed(
            user=user,
            team=None if account is None else account.team,
            since=since,
            until=until,
            byte_seconds=byte_seconds,
            price=price,
            carried_before=before,
            amount=amount,
            carried=carried,
        )

    async def _store(self, charged: _Charged) -> None:
        row = {"name": _NAME, "value": _ADAPTER.dump_json(charged).decode()}
        await durable(self._committer, WriteBatch().upsert(tables.meta, row))
        self._charged = charged
