"""An SQLite database, opened so that nothing of it can change.

A database whose log of writes is gone is opened as immutable: else SQLite would make files beside
it. One that has a log is opened for reading, as a service may be writing it.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from auctune.service.doctor.finding import Finding, State, ok, warn, wrong
from auctune.service.store.version import check_tables

_CHECK_SECONDS = 30.0
_BUSY_SECONDS = 5.0
_STEPS = 100_000
_WRITE_AHEAD = b"\x02\x02"
_RESTORE = "auctune db restore FILE, with the damaged database moved away"


def look_at_file(path: Path) -> Iterator[Finding]:
    """Its form, its tables, and each of its pages.

    Raises:
        InputError: if its tables are not those of this release.
    """
    if not path.exists():
        yield ok("database", f"{path} is not there yet: made at the first start")
        return
    log = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if log.exists() else "immutable=1"
    address = f"{path.resolve().as_uri()}?{mode}"
    try:
        with closing(_connect(address)) as connection:
            whole = _pages(connection, path)
            yield whole
            if whole.state != State.WRONG:
                yield from _form(connection, path)
    except sqlite3.Error as error:
        yield wrong("database", f"{path} cannot be read: {error}", _RESTORE)


def _connect(address: str) -> sqlite3.Connection:
    # The check of tables begins its transactions itself.
    return sqlite3.connect(
        address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _pages(connection: sqlite3.Connection, path: Path) -> Finding:
    """Whether all pages are whole, as far as there is time."""
    end = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        said = f"{path} is too large to be checked within {_CHECK_SECONDS:g} s"
        return warn("database", said, f"sqlite3 {path} 'PRAGMA quick_check'")
    finally:
        connection.set_progress_handler(None, _STEPS)
    if found != "ok":
        first = " ".join(found.split())
        return wrong("database", f"{path} is damaged: {first}", _RESTORE)
    return ok("database", f"{path}: all pages are whole")


def _form(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as reader:
        check_tables(reader, str(path))
    with path.open("rb") as file:
        head = file.read(20)
    if head[18:20] != _WRITE_AHEAD:
        said = "its tables are of this release; it does not write ahead"
        yield warn("database", said, "auctune serve, which has it do so when it opens it")
    else:
        yield ok("database", "its tables are of this release; it writes ahead (WAL)")
