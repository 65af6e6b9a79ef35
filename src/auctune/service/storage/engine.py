"""Open the database of a service: own it, check its schema, and migrate it to the newest one.

The migrations are Alembic's, in the package beside this module, without a configuration file. All
missing ones run in one transaction: a database is at its old revision or at the newest.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol, Self

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, event, inspect
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from auctune.domain import InputError
from auctune.service.storage.batch import StoreError, UnavailableError
from auctune.service.storage.event_log import check_log, record_version
from auctune.service.storage.identity import check_unused, database_id
from auctune.service.storage.postgresql import PostgresqlDatabase
from auctune.service.storage.sqlite import SqliteDatabase

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOGS = {"0002": " (log of version 11 or before)"}


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
