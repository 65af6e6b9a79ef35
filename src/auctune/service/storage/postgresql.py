"""PostgreSQL as the store of a service.

The owner holds an advisory lock of the session that writes: lock and session end together, so a
process that lost the lock cannot write either. The session requires commits to be on disk, whatever
the server's default is.
"""

import os
import socket

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from auctune.domain import InputError

# "auctune", as a number.
_LOCK = int.from_bytes(b"auctune", "big")
# The server notices at once that a client was killed, but may complete its statement first.
_LOCK_WAIT = "2s"

_HOLDER = text(
    "SELECT application_name, pid, backend_start FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND pg_locks.database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (classid::bigint << 32) + objid::bigint = :lock"
)
# Settings stronger than 'on' stay. An idle session must not be ended.
_SETTINGS = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')",
    "SELECT set_config(name, '0', false) FROM pg_settings"
    " WHERE name IN ('idle_session_timeout', 'statement_timeout', 'lock_timeout',"
    " 'transaction_timeout', 'idle_in_transaction_session_timeout')",
)
_NEEDED = {"server_encoding": "UTF8", "fsync": "on"}


class PostgresqlDatabase:
    """A database of a PostgreSQL server; see `Database`. The driver is psycopg 3."""

    def __init__(self, url: URL) -> None:
        self.label = url.render_as_string(hide_password=True)
        self._url = url.set(drivername="postgresql+psycopg")

    def acquire(self) -> Connection:
        name = f"auctune: process {os.getpid()} on {socket.gethostname()}"[:63]
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"application_name": name, "client_encoding": "utf8"},
        )
        try:
            connection = engine.connect()
        except OperationalError as error:
            reason = str(error.orig).splitlines()[0]
            raise InputError(
                self.label, f"cannot be reached: {reason}", "a running PostgreSQL server"
            ) from None
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def reader(self) -> Engine:
        engine = create_engine(
            self._url,
            hide_parameters=True,
            pool_pre_ping=True,
            connect_args={"client_encoding": "utf8"},
        )

        @event.listens_for(engine, "connect")
        def set_up(connection: psycopg.Connection, _: object) -> None:
            # Pages are read along an index. Before the tables are analyzed, the planner prefers to
            # collect and sort all rows that follow, and to take a page of them.
            connection.autocommit = True
            connection.execute("SET enable_bitmapscan = off")
            connection.autocommit = False
            connection.read_only = True

        return engine

    def ensure_owned(self) -> None:
        """Do nothing: writes need the session that holds the lock."""

    def purge(self, connection: Connection) -> None:
        """Do nothing: the server's VACUUM removes old versions of rows."""

    def release(self) -> None:
        """Do nothing: the lock ended with its session."""

    def _set_up(self, connection: Connection) -> None:
        with connection.begin():
            for statement in _SETTINGS:
                connection.exec_driver_sql(statement)
            check_server(connection, self.label)
            read_only = connection.exec_driver_sql("SHOW transaction_read_only").scalar_one()
            if read_only != "off":
                raise InputError(self.label, "is read-only", "transaction_read_only=off")
        try:
            with connection.begin():
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
                connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            raise self._owned_by(connection) from None

    def _owned_by(self, connection: Connection) -> InputError:
        with connection.begin():
            holder = holder_of(connection) or "another process"
        return InputError(
            self.label, f"is in use by {holder}", "a database that no other process serves"
        )


def check_server(connection: Connection, place: str) -> None:
    """Check that a server keeps what it acknowledges, and stores any text."""
    for name, needed in _NEEDED.items():
        found = connection.exec_driver_sql(f"SHOW {name}").scalar_one()
        if found != needed:
            raise InputError(place, f"has {name}={found}", f"{name}={needed}")


def holder_of(connection: Connection) -> str | None:
    """Return the owner of a database, or None if it has no owner."""
    row = connection.execute(_HOLDER, {"lock": _LOCK}).first()
    return None if row is None else f"{row[0]} (backend {row[1]}) since {row[2]}"
