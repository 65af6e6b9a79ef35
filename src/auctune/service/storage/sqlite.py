"""SQLite as the store of a service: one file, a write-ahead log, every commit on disk; its copies.

`synchronous=FULL` flushes the log at each commit. Readers see the last commit and never wait for
the writer. The owner holds a lock on a file beside the database, which the kernel releases when the
process ends, however it ends.

SQLite's online backup (https://www.sqlite.org/backup.html) copies pages within one read
transaction, also while a service writes, so the copy is the database as of one commit. It is
checked and flushed before it gets its name.
"""

import fcntl
import os
import socket
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from auctune.atomic_files import link_durably
from auctune.domain import InputError
from auctune.service.storage.batch import StoreError, UnavailableError

# More than `auctune.service.storage.batch` uses.
_CACHED_STATEMENTS = 512
_BUSY_SECONDS = 10.0
# recursive_triggers: without it no trigger sees the rows that REPLACE removes.
_PRAGMAS = ("foreign_keys=ON", "recursive_triggers=ON")
# secure_delete: overwrites what is removed or replaced, as erasure promises.
_WRITER = (*_PRAGMAS, "journal_mode=WAL", "synchronous=FULL", "secure_delete=ON")
_READER = (*_PRAGMAS, "query_only=ON")


class SqliteDatabase:
    """An SQLite database in a file; see `Database`."""

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
    """Copy a database, to which a service may be writing, to a new file: whole or not at all."""
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
