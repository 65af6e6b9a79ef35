"""The tables of a service.

Times are unix seconds. Money is a whole number of `auctune.domain.money.STEP`. A `body` is JSON in
UTF-8, except that of a snapshot. `seq` comes from one sequence for the whole database, which rises
and never repeats a number. The `checksum` of an event covers its other columns; its `version` is
that of the log, see `upcasting`.

| table | row |
| --- | --- |
| events | event of a zone; append-only |
| entries | ledger entry; the entries of an event sum to 0; append-only |
| balances | sum of the entries of an account; a trigger adds each entry to it |
| jobs | current state of a job, for reading; `seq` is that of its first event |
| job_metadata | number of a pair of the metadata of a job, or of none, for searches |
| snapshots | state of a zone after the event `seq` |
| files | uploaded file or result; with `deleted_at` when it was deleted |
| teams, users, keys | accounts; an API key is stored as its hash |
| idempotency_keys | response to a request with an idempotency token |
| meta | named values of the whole service |

Migrations create these tables; a test compares the newest revision with this module.
"""

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeEngine

# SQLite checks types in STRICT tables only, which have only its own types.
WHOLE = BigInteger().with_variant(Integer(), "sqlite")
_STORED = text("deleted_at IS NULL")
TIME: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    }
)

events = Table(
    "events",
    metadata,
    Column("seq", WHOLE, primary_key=True, autoincrement=False),
    Column("zone", Text, nullable=False),
    Column("slot", WHOLE, nullable=False),
    Column("at", TIME, nullable=False),
    Column("type", Text, nullable=False),
    Column("job", Text),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", WHOLE, nullable=False),
    # The default is for events from before there was this column; a new one names its version.
    Column("version", WHOLE, nullable=False, server_default="11"),
    Index(None, "zone", "seq"),
    Index(None, "job", "seq"),
    sqlite_strict=True,
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", WHOLE, ForeignKey("events.seq"), nullable=False),
    Column("zone", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("status", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("seq"),
    Index(None, "owner", "seq"),
    Index(None, "zone", "seq"),
    Index(None, "zone", "status", "seq"),
    sqlite_strict=True,
)

job_metadata = Table(
    "job_metadata",
    metadata,
    Column("seq", WHOLE, ForeignKey("jobs.seq"), primary_key=True, autoincrement=False),
    Column("pair", WHOLE, primary_key=True, autoincrement=False),
    Index(None, "pair", "seq"),
    sqlite_strict=True,
)

entries = Table(
    "entries",
    metadata,
    Column("id", WHOLE, primary_key=True, autoincrement=False),
    Column("seq", WHOLE, ForeignKey("events.seq"), nullable=False),
    Column("job", Text),
    Column("account", Text, nullable=False),
    Column("amount", WHOLE, nullable=False),
    Column("at", TIME, nullable=False),
    Index(None, "account", "id"),
    Index(None, "account", "at", "id"),
    Index(None, "job"),
    sqlite_strict=True,
)

balances = Table(
    "balances",
    metadata,
    Column("account", Text, primary_key=True),
    Column("amount", WHOLE, nullable=False),
    sqlite_strict=True,
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("zone", Text, primary_key=True),
    Column("seq", WHOLE, primary_key=True, autoincrement=False),
    Column("at", TIME, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_strict=True,
)

files = Table(
    "files",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", WHOLE, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("bytes", WHOLE, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("detail", Text),
    Column("body", LargeBinary, nullable=False),
    Column("deleted_at", TIME),
    Column("expires_at", TIME),
    UniqueConstraint("seq"),
    Index(None, "owner", "purpose", "created_at", "bytes"),
    # An owner may have deleted any number of files.
    *(
        Index(None, *columns, sqlite_where=_STORED, postgresql_where=_STORED)
        for columns in (
            ("owner", "seq", "bytes"),
            ("owner", "purpose", "seq"),
            ("owner", "sha256", "seq"),
            ("owner", "filename", "seq"),
            ("expires_at", "seq"),
        )
    ),
    sqlite_strict=True,
)

teams = Table(
    "teams",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", TIME, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_strict=True,
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("team", Text, ForeignKey("teams.id")),
    Column("created_at", TIME, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_strict=True,
)

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("user", Text, ForeignKey("users.id"), nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("revoked_at", TIME),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("hash"),
    sqlite_strict=True,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("token", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("at", TIME, nullable=False),
    sqlite_strict=True,
)

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_strict=True,
)

NUMBERS = (events.c.seq, entries.c.id, files.c.seq)
"""Columns with numbers of the one sequence of the database."""
