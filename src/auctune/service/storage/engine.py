"""Open a service's database, of SQLite or PostgreSQL: own it, check its schema, and migrate it.

The migrations are Alembic's, in the package beside this module, without a configuration file. All
missing ones run in one transaction: a database is at its old revision or at the newest.
"""

import fcntl
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self, TextIO

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from auctune.domain import AuctuneError, InputError
from auctune.files.atomic import link_durably
from auctune.service.storage.event_log import check_log, record_version
from auctune.service.storage.identity import check_unused, database_id

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOGS = {"0002": " (log of version 11 or before)"}


class StoreError(AuctuneError):
    """The database cannot be used now.

    A batch may be in the database all the same, if the connection broke during the commit. Whoever
    opens the store again reads from it what was committed.
    """


class UnavailableError(StoreError):
    """The database is not where it was; it may come back."""


def ensure_schema(connection: Connection, place: str) -> None:
    """Create the tables in an empty database; any other one must be at the newest revision.

    Its log must be of a version that can be read.
    """
    found = revision(connection, place)
    if found is None:
        migrate(connection, place)
    else:
        _check_current(connection, found, place)


def check_schema(connection: Connection, place: str, *, is_newest: bool = True) -> None:
    """Check that a database is at the newest revision, or at one that is known; write nothing."""
    found = revision(connection, place)
    if found is None:
        raise InputError(place, "is empty", "the database of a service")
    if is_newest or found == _check_known(found, place):
        _check_current(connection, found, place)


def migrate(connection: Connection, place: str) -> None:
    """Migrate a database from any revision to the newest."""
    found = revision(connection, place)
    if found is not None:
        _check_known(found, place)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    check_log(connection, place)


def revision(connection: Connection, place: str) -> str | None:
    """Return the revision of a database, or None for an empty one."""
    with connection.begin():
        heads = MigrationContext.configure(connection).get_current_heads()
        tables = inspect(connection).get_table_names()
    if not heads and set(tables) - {"alembic_version"}:
        found = f"holds tables that are not auctune's: {', '.join(sorted(tables)[:3])}"
        raise InputError(place, found, "an empty database, or one of auctune")
    return heads[0] if heads else None


def _check_current(connection: Connection, found: str, place: str) -> None:
    """Check that the revision that was found is the newest, and that the log can be read."""
    newest = _check_known(found, place)
    if found != newest:
        expected = f"{newest}; run: auctune db upgrade"
        log = _LOGS.get(found, "")
        raise InputError(place, f"has tables of revision {found}{log}", expected)
    check_log(connection, place)


def _check_known(found: str, place: str) -> str:
    """Return the newest revision; refuse one that this release does not have."""
    scripts = ScriptDirectory.from_config(_config())
    newest = scripts.get_current_head()
    assert newest is not None
    if found not in {script.revision for script in scripts.walk_revisions()}:
        expected = f"at most {newest}: a newer release of auctune wrote this database"
        raise InputError(place, f"has tables of revision {found}", expected)
    return newest


def _config() -> Config:
    config = Config()
    # A per cent sign would begin a variable.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


FILE_NAME = "auctune.db"
_EXPECTED = "a folder, sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


class Database(Protocol):
    """A database that one process at a time owns.

    Attributes:
        label: its name in errors, without a password.
    """

    label: str

    def acquire(self) -> Connection:
        """Become the owner for as long as the returned connection, which alone writes, is open.

        A database that has an owner, or does not keep what it acknowledges, is an InputError. After
        a release, only the database that was owned is acquired again.
        """
        ...

    def reader(self) -> Engine: ...

    def ensure_owned(self) -> None:
        """Raise UnavailableError if the database is not the one that was opened any more."""
        ...

    def purge(self, connection: Connection) -> None:
        """Remove what was overwritten or deleted from the files, outside of a transaction."""
        ...

    def release(self) -> None: ...


# More than `auctune.service.storage.committer` uses.
_CACHED_STATEMENTS = 512
_BUSY_SECONDS = 10.0
# recursive_triggers: without it no trigger sees the rows that REPLACE removes.
_PRAGMAS = ("foreign_keys=ON", "recursive_triggers=ON")
# secure_delete: overwrites what is removed or replaced, as erasure promises.
_WRITER = (*_PRAGMAS, "journal_mode=WAL", "synchronous=FULL", "secure_delete=ON")
_READER = (*_PRAGMAS, "query_only=ON")


class SqliteDatabase:
    """An SQLite database in a file; see `Database`.

    `synchronous=FULL` flushes the write-ahead log at each commit. Readers see the last commit and
    never wait for the writer. The owner holds a lock on a file beside the database, which the
    kernel releases when the process ends, however it ends.
    """

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path.resolve()
        self._lock: TextIO | None = None
        self._inode = 0

    def acquire(self) -> Connection:
        if self._inode:
            # Opening it would create a file in the place of one that was moved.
            self.ensure_owned()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_name(f"{self._path.name}.lock").open("a+")
            self._path.touch(mode=0o600)
        except OSError as error:
            raise self._cannot_be_opened(error.strerror or "unknown error") from None
        _acquire(lock, self.label)
        self._lock = lock
        self._inode = self._path.stat().st_ino
        try:
            return _engine(self._path, _WRITER, "BEGIN IMMEDIATE", poolclass=NullPool).connect()
        except DBAPIError as error:
            self.release()
            raise self._cannot_be_opened(str(error.orig)) from None

    @property
    def has_content(self) -> bool:
        try:
            return self._path.stat().st_size > 0
        except OSError:
            return False

    def check_exists(self) -> None:
        """Refuse a file that does not exist: connecting would create it."""
        if not self._path.is_file():
            raise InputError(self.label, "does not exist", "the database of a service")

    def reader(self) -> Engine:
        return _engine(self._path, _READER, "BEGIN")

    def ensure_owned(self) -> None:
        # SQLite itself would go on writing to a file that was moved or deleted.
        try:
            inode = self._path.stat().st_ino
        except OSError as error:
            raise UnavailableError(f"{self.label}: no longer exists: {error.strerror}") from None
        if inode != self._inode:
            raise UnavailableError(f"{self.label}: was replaced by another file")

    def purge(self, connection: Connection) -> None:
        # Moves the whole write-ahead log into the file, and truncates it.
        driver = connection.connection.driver_connection
        assert driver is not None
        (is_busy, *_) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise StoreError(f"{self.label}: readers hold its write-ahead log; try again")

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _cannot_be_opened(self, reason: str) -> InputError:
        return InputError(
            self.label,
            f"cannot be opened: {reason}",
            "a path for an SQLite database",
        )


def _engine(path: Path, pragmas: tuple[str, ...], begin: str, **pool: Any) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # No isolation level: SQLAlchemy begins transactions, not the driver.
        connect_args={
            "isolation_level": None,
            "timeout": _BUSY_SECONDS,
            "check_same_thread": False,
            "cached_statements": _CACHED_STATEMENTS,
        },
        hide_parameters=True,
        **pool,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: object) -> None:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _acquire(lock: TextIO, place: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read() or "another process"
        lock.close()
        raise InputError(
            place, f"is in use by {holder}", "a database that no other process serves"
        ) from None
    lock.truncate(0)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    lock.write(f"process {os.getpid()} on {socket.gethostname()} since {now}")
    lock.flush()


def copy_database(source: Path, target: Path) -> None:
    """Copy a database, to which a service may be writing, to a new file: whole or not at all.

    SQLite's online backup (https://www.sqlite.org/backup.html) copies pages within one read
    transaction, so the copy is the database as of one commit. It is checked and flushed before it
    gets its name.
    """
    if not source.is_file():
        raise InputError(str(source), "does not exist", "an SQLite database")
    exists = InputError(str(target), "already exists", "the name of a new file")
    if target.exists():
        raise exists
    draft = target.with_name(f"{target.name}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        _copy(source, draft)
        # Unlike a rename it replaces no file that was created in the meantime.
        link_durably(draft, target)
    except FileExistsError:
        raise exists from None
    except OSError as error:
        raise InputError(
            str(target), f"cannot be written ({error.strerror})", "a new file in a folder"
        ) from None
    except sqlite3.Error as error:
        raise InputError(str(source), f"cannot be copied ({error})", "an SQLite database") from None
    finally:
        draft.unlink(missing_ok=True)


def _copy(source: Path, draft: Path) -> None:
    address = f"{source.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(draft)) as written,
    ):
        read.backup(written)
        # The copy is a single file, without a write-ahead log beside it.
        written.execute("PRAGMA journal_mode=DELETE").fetchall()
        (found,) = written.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)


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
    """A database of a PostgreSQL server; see `Database`. The driver is psycopg 3.

    The owner holds an advisory lock of the session that writes: lock and session end together, so a
    process that lost the lock cannot write either. The session requires commits to be on disk,
    whatever the server's default is.
    """

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


class Store:
    """A database that this process owns until it closes it.

    Attributes:
        writer: the one connection that writes; used by one thread at a time.
        reader: read-only connections, for any number of threads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.label = database.label
        self.writer: Connection = database.acquire()
        self.reader: Engine = database.reader()
        event.listen(self.reader, "handle_error", self._on_read_error)
        self._id: str | None = None

    def remember_id(self) -> None:
        """Note which database this is, for `reconnect`."""
        self._id = database_id(self.writer)

    def reconnect(self) -> None:
        """Become the owner again, with a new connection, after an error of the database.

        Raises:
            DBAPIError, InputError, UnavailableError: if that is not possible now.
        """
        self._close_writer()
        self.writer = self._database.acquire()
        if self._id is not None and database_id(self.writer) != self._id:
            raise UnavailableError(f"{self.label}: is another database")

    def check_still_owned(self) -> None:
        self._database.ensure_owned()

    def purge(self) -> None:
        self._database.purge(self.writer)

    def close(self) -> None:
        self.reader.dispose()
        self._close_writer()

    def _close_writer(self) -> None:
        if not self.writer.closed:
            # A connection that is broken cannot be rolled back.
            with suppress(DBAPIError):
                self.writer.invalidate()
            with suppress(DBAPIError):
                self.writer.close()
            self._database.release()

    def _on_read_error(self, context: ExceptionContext) -> None:
        """Have readers raise StoreError where the database cannot be read now."""
        error = context.sqlalchemy_exception
        original = context.original_exception
        # SQLite reports a write by a reader, which is a defect of ours, like a failure.
        is_defect = getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY
        is_outage = (isinstance(error, OperationalError) and not is_defect) or context.is_disconnect
        # The pool itself replaces a connection that does not answer its ping.
        if is_outage and not context.is_pre_ping:
            reason = type(original).__name__
            raise StoreError(f"{self.label}: cannot be read ({reason})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(where: str | Path, folder: Path | None = None) -> Store:
    """Open and own a database; an empty one gets its tables.

    Args:
        where: a data folder with an SQLite database, both created if missing; or a URL,
            `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
        folder: the data folder, which must be unused if the database is empty.

    Raises:
        InputError: if it cannot be opened, is owned, or is of another release; see `upgrade`.
    """
    database = _find(where)
    # Before the SQLite file is created, which would be in the way of a restore.
    if folder is not None and isinstance(database, SqliteDatabase) and not database.has_content:
        check_unused(folder, database.label)
    store = Store(database)
    try:
        if folder is not None and revision(store.writer, store.label) is None:
            check_unused(folder, store.label)
        ensure_schema(store.writer, store.label)
        record_version(store.writer)
        store.remember_id()
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def open_readonly(where: str | Path, *, is_newest: bool = True) -> Iterator[Engine]:
    """Open a database of this release, or of any known one, for reading.

    A service may own it meanwhile.
    """
    database = _find(where)
    if isinstance(database, SqliteDatabase):
        database.check_exists()
    reader = database.reader()
    try:
        try:
            with reader.connect() as connection:
                check_schema(connection, database.label, is_newest=is_newest)
        except DBAPIError as error:
            reason = str(error.orig).splitlines()[0]
            raise InputError(
                database.label, f"cannot be read: {reason}", "the database of a service"
            ) from None
        yield reader
    finally:
        reader.dispose()


def upgrade(where: str | Path) -> None:
    """Migrate a database to the tables of this release; otherwise as `open_store`."""
    with closing(Store(_find(where))) as store:
        migrate(store.writer, store.label)


def sqlite_file(where: str | Path) -> Path | None:
    """Return the file of an SQLite database, or None for a PostgreSQL database."""
    database = _find(where)
    return Path(database.label) if isinstance(database, SqliteDatabase) else None


def _find(where: str | Path) -> Database:
    if isinstance(where, Path) or "://" not in where:
        return SqliteDatabase(Path(where) / FILE_NAME)
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise InputError("database", "is not a valid URL", _EXPECTED) from None
    place = f"database {url.render_as_string(hide_password=True)}"
    kind = url.get_backend_name()
    if kind == "postgresql":
        return PostgresqlDatabase(url)
    if kind != "sqlite":
        raise InputError(place, f"{kind} is not supported", _EXPECTED)
    if url.database in (None, "", ":memory:") or url.query:
        raise InputError(place, "does not name a file", _EXPECTED)
    assert url.database is not None
    return SqliteDatabase(Path(url.database))
