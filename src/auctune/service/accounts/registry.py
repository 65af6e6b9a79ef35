"""Users, teams and keys, all in memory: requests look them up thousands of times a second.

One process owns the database, so that what is in memory is what is there.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import orjson
from sqlalchemy import Engine, Table, select

from auctune.domain import InputError, Money
from auctune.service.accounts.keys import HashedKey, NewKey, Principal, Role, generate_key, hash_key
from auctune.service.identifiers import new_id
from auctune.service.storage import tables
from auctune.service.storage.batch import WriteBatch
from auctune.service.storage.committer import Committer, durable


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be paid within a span of time.

    Attributes:
        amount: money.
        seconds: the span, ending now.
    """

    amount: Money
    seconds: float


@dataclass(frozen=True, slots=True)
class Account:
    """A user or a team.

    Attributes:
        id: as it was named.
        kind: which of the two.
        created_at: unix time.
        team: of a user; none: it has none, or is a team itself.
        budget: what it may pay; none: any amount.
    """

    id: str
    kind: Literal["user", "team"]
    created_at: float
    team: str | None = None
    budget: Budget | None = None

    @property
    def key(self) -> str:
        """Its name among users and teams."""
        return f"{self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as an operator sees it.

    Attributes:
        id: of the key, not the key itself.
        prefix: its first characters.
        user: whose it is.
        role: what it is for.
        name: as its owner calls it.
        created_at, revoked_at: unix time; not revoked: none.
    """

    id: str
    prefix: str
    user: str
    role: Role
    name: str
    created_at: float
    revoked_at: float | None


@dataclass
class _Cache:
    by_hash: dict[str, KeyRecord] = field(default_factory=dict)
    users: dict[str, Account] = field(default_factory=dict)
    teams: dict[str, Account] = field(default_factory=dict)


class AccountRegistry:
    """Who is known to the service.

    Args:
        reader: of the store.
        committer: writes.
        now: tells unix time.
    """

    def __init__(
        self, reader: Engine, committer: Committer, now: Callable[[], float] = time.time
    ) -> None:
        self._committer = committer
        self._now = now
        self._held = _read(reader)

    def authenticate(self, secret: str) -> Principal | None:
        """Whose key this is; none: nobody's, or it was revoked."""
        key = self._held.by_hash.get(hash_key(secret))
        if key is None or key.revoked_at is not None:
            return None
        return self._principal(key)

    def principal_of_key(self, key: str) -> Principal | None:
        """Whose key this is, by its id; none: nobody's, or it was revoked."""
        for record in self._held.by_hash.values():
            if record.id == key and record.revoked_at is None:
                return self._principal(record)
        return None

    def is_active(self, key: str) -> bool:
        """Whether a key, by its id, has not been revoked."""
        return self.principal_of_key(key) is not None

    def user(self, name: str) -> Account | None:
        """A user."""
        return self._held.users.get(name)

    def team(self, name: str) -> Account | None:
        """A team."""
        return self._held.teams.get(name)

    def users(self) -> list[Account]:
        """All users, in the order in which they came."""
        return list(self._held.users.values())

    def teams(self) -> list[Account]:
        """All teams, likewise."""
        return list(self._held.teams.values())

    def all_keys(self) -> list[KeyRecord]:
        """All keys, likewise."""
        return list(self._held.by_hash.values())

    async def put_team(self, name: str, budget: Budget | None) -> Account:
        """Add a team, or change its budget."""
        known = self._held.teams.get(name)
        at = self._now() if known is None else known.created_at
        team = Account(name, "team", at, None, budget)
        row = {"id": name, "created_at": at, "body": _body(budget)}
        await durable(self._committer, WriteBatch().upsert(tables.teams, row))
        self._held.teams[name] = team
        return team

    async def put_user(self, name: str, team: str | None, budget: Budget | None) -> Account:
        """Add a user, or change its team and budget.

        Raises:
            InputError: if there is no such team.
        """
        if team is not None and team not in self._held.teams:
            raise InputError("team", f"{team!r} is unknown", "a team that was added before")
        known = self._held.users.get(name)
        at = self._now() if known is None else known.created_at
        user = Account(name, "user", at, team, budget)
        row = {"id": name, "team": team, "created_at": at, "body": _body(budget)}
        await durable(self._committer, WriteBatch().upsert(tables.users, row))
        self._held.users[name] = user
        return user

    async def add_key(self, user: str, role: Role, name: str) -> tuple[KeyRecord, NewKey]:
        """A new key; its secret is known now, and never again.

        Raises:
            InputError: if there is no such user.
        """
        if user not in self._held.users:
            raise InputError("user", f"{user!r} is unknown", "a user that was added before")
        made = generate_key()
        record = KeyRecord(new_id("key"), made.prefix, user, role, name, self._now(), None)
        await durable(
            self._committer, WriteBatch().insert(tables.keys, _key_row(record, made.hash))
        )
        self._held.by_hash[made.hash] = record
        return record, made

    async def import_key(self, user: str, role: Role, name: str, key: HashedKey) -> None:
        """Add a key that was made elsewhere, unless it was added before; then nothing changes."""
        if key.hash not in self._held.by_hash:
            record = KeyRecord(new_id("key"), key.prefix, user, role, name, self._now(), None)
            await durable(
                self._committer, WriteBatch().insert(tables.keys, _key_row(record, key.hash))
            )
            self._held.by_hash[key.hash] = record

    async def revoke_key(self, key: str) -> KeyRecord | None:
        """End a key, at once; none: there is no such key."""
        for hash_, record in self._held.by_hash.items():
            if record.id == key:
                if record.revoked_at is None:
                    record = replace(record, revoked_at=self._now())
                    # It ends before the disk knows, and not after.
                    self._held.by_hash[hash_] = record
                    unit = WriteBatch().upsert(tables.keys, _key_row(record, hash_))
                    await durable(self._committer, unit)
                return record
        return None

    def _principal(self, record: KeyRecord) -> Principal:
        return Principal(record.id, record.user, self._held.users[record.user].team, record.role)


def _read(reader: Engine) -> _Cache:
    held = _Cache()
    for row in _rows(reader, tables.teams):
        held.teams[row.id] = Account(row.id, "team", row.created_at, None, _budget(row.body))
    for row in _rows(reader, tables.users):
        held.users[row.id] = Account(row.id, "user", row.created_at, row.team, _budget(row.body))
    for row in _rows(reader, tables.keys):
        held.by_hash[row.hash] = KeyRecord(
            id=row.id,
            prefix=row.prefix,
            user=row.user,
            role=Role(row.role),
            name=orjson.loads(row.body)["name"],
            created_at=row.created_at,
            revoked_at=row.revoked_at,
        )
    return held


def _rows(reader: Engine, table: Table) -> list[Any]:
    with reader.connect() as connection:
        return list(connection.execute(select(table).order_by(table.c.created_at)))


def _body(budget: Budget | None) -> bytes:
    record = None if budget is None else {"amount": str(budget.amount), "seconds": budget.seconds}
    return orjson.dumps({"budget": record})


def _budget(body: bytes) -> Budget | None:
    record = orjson.loads(body)["budget"]
    return None if record is None else Budget(Decimal(record["amount"]), record["seconds"])


def _key_row(record: KeyRecord, hash_: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "hash": hash_,
        "prefix": record.prefix,
        "user": record.user,
        "role": record.role.value,
        "created_at": record.created_at,
        "revoked_at": record.revoked_at,
        "body": orjson.dumps({"name": record.name}),
    }
