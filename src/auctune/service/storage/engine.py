"""The database of a service: opened, owned, at the right revision."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from auctune.domain import InputError
from auctune.service.storage.identity import check_unused
from auctune.service.storage.postgresql import PostgresqlDatabase
from auctune.service.storage.schema import check_schema, ensure_schema, migrate, revision
from auctune.service.storage.sqlite import SqliteDatabase


class Database(Protocol):
    """A database that one process at a time owns.

    Attributes:
        place: what it is called in errors; holds no password.
    """

    label: str

    def acquire(self) -> Connection:
        """Become its owner: the one connection that writes, for as long as it is open.

        Raises:
            InputError: if it cannot be opened, does not keep what it acknowledges, or has an owner;
                names who that is.
        """
        ...

    def reader(self) -> Engine:
        """Connections that read and cannot write."""
        ...

    def ensure_owned(self) -> None:
        """Before a write: that what is written to is still what was opened.

        Raises:
            StoreError: if it is not.
        """
        ...

    def purge(self, connection: Connection) -> None:
        """Leave nothing of what was overwritten or removed in the database's files.

        Args:
            connection: the one that writes, outside a transaction.
        """
        ...

    def release(self) -> None:
        """Let the next owner in; the writing connection is closed before."""
        ...


# Opening a service's database.

FILE_NAME = "auctune.db"


class Store:
    """A database that this process owns until it closes it.

    Attributes:
        writer: the one connection that writes; used by one thread at a time.
        reader: connections that only read, for any number of threads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.label = database.label
        self.writer: Connection = database.acquire()
        self.reader: Engine = database.reader()

    def check_still_owned(self) -> None:
        """Before a write.

        Raises:
            StoreError: if what is written to is no longer what was opened.
        """
        self._database.ensure_owned()

    def purge(self) -> None:
        """Leave nothing of what was overwritten or removed in the database's files."""
        self._database.purge(self.writer)

    def close(self) -> None:
        """Close all connections, then let the next owner in."""
        self.reader.dispose()
        self.writer.close()
        self._database.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(where: str | Path, folder: Path | None = None) -> Store:
    """Own a database; an empty one is given its tables at once.

    Args:
        where: a data folder, made if it is not there, for SQLite in it; or a URL, `sqlite:///FILE`
            or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
        folder: the data folder, which must be unused if the database is empty.

    Raises:
        InputError: if it cannot be opened, another process owns it, or it is of another release;
            a database of an earlier one is brought to this one by `upgrade`.
    """
    database = _find(where)
    # Before an SQLite file is made, which would be in the way of a backup.
    if folder is not None and isinstance(database, SqliteDatabase) and not database.has_content:
        check_unused(folder, database.label)
    store = Store(database)
    try:
        if folder is not None and revision(store.writer, store.label) is None:
            check_unused(folder, store.label)
        ensure_schema(store.writer, store.label)
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def open_readonly(where: str | Path) -> Iterator[Engine]:
    """Connections that read a database and cannot write, also while a service owns it.

    Args:
        where: as of `open_store`.

    Raises:
        InputError: if there is none, it cannot be read, or it is of another release.
    """
    database = _find(where)
    if isinstance(database, SqliteDatabase):
        database.check_there()
    reader = database.reader()
    try:
        try:
            with reader.connect() as connection:
                check_schema(connection, database.label)
        except DBAPIError as error:
            reason = str(error.orig).splitlines()[0]
            raise InputError(
                database.label, f"cannot be read: {reason}", "the database of a service"
            ) from None
        yield reader
    finally:
        reader.dispose()


def upgrade(where: str | Path) -> None:
    """Bring a database to the tables of this release; as `open_store` otherwise."""
    with closing(Store(_find(where))) as store:
        migrate(store.writer, store.label)


def sqlite_file(where: str | Path) -> Path | None:
    """The file of a database that is SQLite's; none: it is another's.

    Raises:
        InputError: as `open_store`, for a URL that is none.
    """
    database = _find(where)
    return Path(database.label) if isinstance(database, SqliteDatabase) else None


def _find(where: str | Path) -> Database:
    if isinstance(where, Path) or "://" not in where:
        return SqliteDatabase(Path(where) / FILE_NAME)
    expected = "a folder, sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise InputError("database", "is no URL that can be read", expected) from None
    return _of_url(url, expected)


def _of_url(url: URL, expected: str) -> Database:
    place = f"database {url.render_as_string(hide_password=True)}"
    kind = url.get_backend_name()
    if kind == "postgresql":
        return PostgresqlDatabase(url)
    if kind != "sqlite":
        raise InputError(place, f"{kind} is not known", expected)
    if url.database in (None, "", ":memory:") or url.query:
        raise InputError(place, "names no file", expected)
    assert url.database is not None
    return SqliteDatabase(Path(url.database))
