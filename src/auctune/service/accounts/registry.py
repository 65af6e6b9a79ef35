"""Users, teams, keys and default terms. All are in memory, because every request looks them up.

One process owns the database, so the copy in memory is always current. Of API keys only the SHA-256
is stored, so a copy of the database does not grant access.

Default terms are the bid, cap, deadline and zone of requests that do not state them. An operator
sets them for a key, a user, a team or the whole service. Field by field, the first of these that
has one applies.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from sqlalchemy import Engine, Table, select

from auctune.domain import InputError, Money, parse_money
from auctune.service.identifiers import NAME, new_id
from auctune.service.storage import tables
from auctune.service.storage.committer import Committer, WriteBatch, durable

_PREFIX = "sk-"
_SHOWN = 10
_MIN_LENGTH = 32


class Role(StrEnum):
    """Permissions of a key."""

    USER = "user"
    """Submits jobs; sees its own jobs and files only."""
    OPERATOR = "operator"
    """Manages the service; sees everything."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated sender of a request: the key, and the user and team that own it."""

    key: str
    user: str
    team: str | None
    role: Role

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR


@dataclass(frozen=True, slots=True)
class HashedKey:
    """SHA-256 of a key, and its first characters for lists; empty if they are not known."""

    hash: str
    prefix: str


def generate_key() -> tuple[str, HashedKey]:
    """Return a new key of 240 random bits, and what is stored of it."""
    secret = _PREFIX + secrets.token_urlsafe(30)
    return secret, HashedKey(hash_key(secret), secret[:_SHOWN])


def hash_existing_key(secret: str, place: str) -> HashedKey:
    """Return what is stored of a key that the service did not generate; refuse a short one."""
    if len(secret) < _MIN_LENGTH:
        expected = f"a key of {_MIN_LENGTH} random characters or more"
        raise InputError(place, f"has a key of {len(secret)} characters", expected)
    return HashedKey(hash_key(secret), secret[:_SHOWN])


def hash_key(secret: str) -> str:
    """Return the hash of a key. Keys are random, so a plain hash cannot be reversed."""
    return hashlib.sha256(secret.encode()).hexdigest()


_SPAN = re.compile(r"\+([1-9][0-9]{0,3}[smh]|[1-9][0-9]{0,2}d)")


def _check_span(text: str) -> str:
    if not _SPAN.fullmatch(text):
        expected = "a span of whole seconds, minutes, hours or days, such as +90m, +2h or +1d"
        raise InputError("", repr(text), expected)
    return text


Amount = Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]
Span = Annotated[str, StringConstraints(max_length=64), AfterValidator(_check_span)]
Zone = Annotated[str, StringConstraints(pattern=NAME)]


class DefaultTerms(BaseModel):
    """Default terms as an operator sets them; a request on them is like one that states them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bid: Amount | None = Field(
        default=None,
        description="bid of a request that states no `bid`, `value` or `max_cost`; the cap in "
        "zones of kind `spot` and `timeshare`, if `max_cost` is not set",
        examples=["10.00"],
    )
    max_cost: Amount | None = Field(
        default=None,
        description="cap of such a request on its job's cost",
        examples=["10.00"],
    )
    deadline: Span | None = Field(
        default=None,
        description="deadline of a request without one, as a span from when it arrives: `+90m`, "
        "`+2h`, `+1d`",
        examples=["+4h"],
    )
    zone: Zone | None = Field(
        default=None,
        description="zone of a request that names none, if its model is that zone's base; "
        "without a default it goes to the cheapest zone that has its model",
        examples=["default"],
    )

    def to_record(self) -> dict[str, Any]:
        """Return the terms that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def __bool__(self) -> bool:
        return bool(self.to_record())


NO_TERMS = DefaultTerms()

Sources = Sequence[tuple[str, DefaultTerms]]
"""Default terms by owner ("key key-1", "user ada", "team lab", "service"), the first one first."""


@dataclass(frozen=True, slots=True)
class AppliedTerm:
    """A default term that a request was given: its value as text, and whose default it is."""

    value: str
    of: str


def resolve(sources: Sources, names: Iterable[str]) -> dict[str, AppliedTerm]:
    """Return the terms with these names that a source has, each of the first one that has it."""
    found = {}
    for name in names:
        for of, terms in sources:
            value = getattr(terms, name)
            if value is not None:
                found[name] = AppliedTerm(str(value), of)
                break
    return found


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit on payments within a rolling window of so many seconds."""

    amount: Money
    seconds: float


@dataclass(frozen=True, slots=True)
class Account:
    """A user, a team or a key; without a budget its payments are unlimited.

    `default_terms` are those of its requests that do not state them.
    """

    id: str
    kind: Literal["user", "team", "key"]
    created_at: float
    team: str | None = None
    budget: Budget | None = None
    default_terms: DefaultTerms = NO_TERMS

    @property
    def key(self) -> str:
        """Identifier that is unique among users, teams and keys: "user ada"."""
        return f"{self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as operators see it: its id and first characters, not the key itself."""

    id: str
    prefix: str
    user: str
    role: Role
    name: str
    created_at: float
    revoked_at: float | None
    budget: Budget | None = None
    default_terms: DefaultTerms = NO_TERMS

    @property
    def account(self) -> Account:
        """The key as the owner of a budget, for payments of what was requested with it."""
        return Account(self.id, "key", self.created_at, None, self.budget, self.default_terms)


@dataclass
class _Cache:
    by_hash: dict[str, KeyRecord] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    users: dict[str, Account] = field(default_factory=dict)
    teams: dict[str, Account] = field(default_factory=dict)


class AccountRegistry:
    """Users, teams and keys of the service.

    `service_terms` are the default terms of the whole service.
    """

    def __init__(
        self,
        reader: Engine,
        committer: Committer,
        now: Callable[[], float] = time.time,
        service_terms: DefaultTerms = NO_TERMS,
    ) -> None:
        self._committer = committer
        self._now = now
        self._service_terms = service_terms
        self._cache = _read(reader)

    def authenticate(self, secret: str) -> Principal | None:
        """Return the owner of a key, or None if the key is unknown or revoked."""
        record = self._cache.by_hash.get(hash_key(secret))
        return None if record is None else self._principal(record)

    def principal_of_key(self, key: str) -> Principal | None:
        """Return the owner of the key with this id, or None if it is unknown or revoked."""
        record = self.key(key)
        return None if record is None else self._principal(record)

    def is_active(self, key: str) -> bool:
        """Return whether the key with this id exists and is not revoked."""
        return self.principal_of_key(key) is not None

    def default_terms(self, who: Principal) -> Sources:
        """Return the default terms that apply to a principal's requests, by owner."""
        key, user = self.key(who.key), self.user(who.user)
        team = None if who.team is None else self.team(who.team)
        sources = [
            (f"key {who.key}", NO_TERMS if key is None else key.default_terms),
            *((one.key, one.default_terms) for one in (user, team) if one is not None),
            ("service", self._service_terms),
        ]
        return [(of, terms) for of, terms in sources if terms is not NO_TERMS]

    def members(self, owner: str) -> list[str]:
        """Return the users of an account, by `Account.key`: itself, a key's user, a team's."""
        kind, _, name = owner.partition(" ")
        if kind == "team":
            return [user.id for user in self.users() if user.team == name]
        if kind == "user":
            return [name]
        key = self.key(name)
        return [] if key is None else [key.user]

    def key(self, key: str) -> KeyRecord | None:
        hash_ = self._cache.hashes.get(key)
        return None if hash_ is None else self._cache.by_hash[hash_]

    def user(self, name: str) -> Account | None:
        return self._cache.users.get(name)

    def team(self, name: str) -> Account | None:
        return self._cache.teams.get(name)

    def users(self) -> list[Account]:
        return list(self._cache.users.values())

    def teams(self) -> list[Account]:
        return list(self._cache.teams.values())

    def all_keys(self) -> list[KeyRecord]:
        """Return all keys, also revoked ones, oldest first."""
        return list(self._cache.by_hash.values())

    async def put_team(
        self, name: str, budget: Budget | None, terms: DefaultTerms = NO_TERMS
    ) -> Account:
        known = self._cache.teams.get(name)
        at = self._now() if known is None else known.created_at
        row = {"id": name, "created_at": at, "body": _body(budget, terms)}
        await durable(self._committer, WriteBatch().upsert(tables.teams, row))
        team = self._cache.teams[name] = Account(name, "team", at, None, budget, terms)
        return team

    async def put_user(
        self, name: str, team: str | None, budget: Budget | None, terms: DefaultTerms = NO_TERMS
    ) -> Account:
        """Add a user, or change its team, which must exist, its budget and its default terms."""
        if team is not None and team not in self._cache.teams:
            raise InputError("team", f"{team!r} is unknown", "an existing team")
        known = self._cache.users.get(name)
        at = self._now() if known is None else known.created_at
        row = {"id": name, "team": team, "created_at": at, "body": _body(budget, terms)}
        await durable(self._committer, WriteBatch().upsert(tables.users, row))
        user = self._cache.users[name] = Account(name, "user", at, team, budget, terms)
        return user

    async def add_key(
        self,
        user: str,
        role: Role,
        name: str,
        budget: Budget | None = None,
        terms: DefaultTerms = NO_TERMS,
    ) -> tuple[KeyRecord, str]:
        """Generate a key; return its record and the key itself, which is not stored."""
        if user not in self._cache.users:
            raise InputError("user", f"{user!r} is unknown", "an existing user")
        secret, key = generate_key()
        return await self._insert(user, role, name, key, budget, terms), secret

    async def import_key(
        self, user: str, role: Role, name: str, key: HashedKey, terms: DefaultTerms = NO_TERMS
    ) -> None:
        """Add a key that was generated elsewhere, unless it exists already."""
        if key.hash not in self._cache.by_hash:
            await self._insert(user, role, name, key, None, terms)

    async def change_key(
        self, record: KeyRecord, budget: Budget | None, terms: DefaultTerms
    ) -> KeyRecord:
        """Change a key's budget and default terms."""
        return await self._update(replace(record, budget=budget, default_terms=terms))

    async def revoke_key(self, key: str) -> KeyRecord | None:
        """Revoke a key and return its record, or None if there is no such key."""
        record = self.key(key)
        if record is None or record.revoked_at is not None:
            return record
        return await self._update(replace(record, revoked_at=self._now()))

    async def erase_key(self, key: str) -> None:
        """Revoke a key, and erase its name."""
        record = self.key(key)
        assert record is not None
        revoked_at = self._now() if record.revoked_at is None else record.revoked_at
        await self._update(replace(record, name="", revoked_at=revoked_at))

    async def _insert(
        self,
        user: str,
        role: Role,
        name: str,
        key: HashedKey,
        budget: Budget | None,
        terms: DefaultTerms,
    ) -> KeyRecord:
        record = KeyRecord(
            new_id("key"), key.prefix, user, role, name, self._now(), None, budget, terms
        )
        unit = WriteBatch().insert(tables.keys, _key_row(record, key.hash))
        await durable(self._committer, unit)
        self._cache.by_hash[key.hash] = record
        self._cache.hashes[record.id] = key.hash
        return record

    async def _update(self, record: KeyRecord) -> KeyRecord:
        hash_ = self._cache.hashes[record.id]
        # In memory first: a revoked key is refused before the commit, not after.
        self._cache.by_hash[hash_] = record
        unit = WriteBatch().upsert(tables.keys, _key_row(record, hash_))
        await durable(self._committer, unit)
        return record

    def _principal(self, record: KeyRecord) -> Principal | None:
        if record.revoked_at is not None:
            return None
        return Principal(record.id, record.user, self._cache.users[record.user].team, record.role)


def _read(reader: Engine) -> _Cache:
    cache = _Cache()
    for row in _rows(reader, tables.teams):
        cache.teams[row.id] = Account(
            row.id, "team", row.created_at, None, _budget(row.body), _terms(row.body)
        )
    for row in _rows(reader, tables.users):
        cache.users[row.id] = Account(
            row.id, "user", row.created_at, row.team, _budget(row.body), _terms(row.body)
        )
    for row in _rows(reader, tables.keys):
        cache.hashes[row.id] = row.hash
        cache.by_hash[row.hash] = KeyRecord(
            id=row.id,
            prefix=row.prefix,
            user=row.user,
            role=Role(row.role),
            name=orjson.loads(row.body)["name"],
            budget=_budget(row.body),
            created_at=row.created_at,
            revoked_at=row.revoked_at,
            default_terms=_terms(row.body),
        )
    return cache


def _rows(reader: Engine, table: Table) -> list[Any]:
    with reader.connect() as connection:
        return list(connection.execute(select(table).order_by(table.c.created_at)))


def _body(budget: Budget | None, terms: DefaultTerms, **fields: str) -> bytes:
    record = None if budget is None else {"amount": str(budget.amount), "seconds": budget.seconds}
    terms_fields = {"default_terms": terms.to_record()} if terms else {}
    return orjson.dumps({**fields, "budget": record, **terms_fields})


def _terms(body: bytes) -> DefaultTerms:
    record = orjson.loads(body).get("default_terms")
    return NO_TERMS if record is None else DefaultTerms.model_validate(record)


def _budget(body: bytes) -> Budget | None:
    # Keys that were added before keys had budgets lack it.
    record = orjson.loads(body).get("budget")
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
        "body": _body(record.budget, record.default_terms, name=record.name),
    }
