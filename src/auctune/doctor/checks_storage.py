"""Checks of the data folder, the database and the clock. They write nothing.

An SQLite database without a write-ahead log is opened as immutable, as SQLite would otherwise
create files beside it. One with a log is opened read-only, as a service may be writing it. A
PostgreSQL database is read in read-only transactions.
"""

import fcntl
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.doctor.installation import (
    Finding,
    Installation,
    Severity,
    error,
    format_gib,
    nearest_folder,
    ok,
    warn,
    write_error,
)
from auctune.domain import InputError
from auctune.engine.base_place import base_place
from auctune.engine.file_lock import DATABASE_LOCK, NODES_LOCK, RUN_LOCK
from auctune.service.private_files import run_at

if TYPE_CHECKING:
    from sqlalchemy import Connection

_MIN_FREE_BYTES = 200 << 20
"""For the log, snapshots and the tiny base."""
_JOBS_PER_NODE_DAY = 96
"""Four concurrent jobs of an hour each."""
_ADAPTER_SHARE = 0.01
"""Share of a base's bytes: LoRA of rank 16 on all modules of a 7B model adds 0.6%."""

_CHECK_SECONDS = 30.0
_BUSY_SECONDS = 5.0
_PROGRESS_STEPS = 100_000
_WAL_VERSION = b"\x02\x02"
_RESTORE = "move the damaged database away, then run auctune db restore FILE"
_CONNECT_SECONDS = "5"

_CLOCK_TOLERANCE_SECONDS = 5.0


def check_data_folder(at: Installation) -> Iterator[Finding]:
    """Check that the data folder can be written and has room, and which service uses it."""
    if at.data.exists() and not at.data.is_dir():
        yield error(f"{at.data} is not a folder", "set --data to a folder")
        return
    run = run_at(at.data)
    if run is not None:
        yield _run_finding(run)
        return
    reason = write_error(at.data)
    if reason is not None:
        fix = f"run chown or chmod on {at.data}, or set another --data"
        yield error(f"{at.data} cannot be written ({reason})", fix)
    elif not at.data.exists():
        yield ok(f"{at.data} does not exist yet: the first start creates it")
    else:
        yield ok(f"{at.data} can be written")
    yield disk_finding(shutil.disk_usage(nearest_folder(at.data)).free, required_bytes(at))
    if at.data.is_dir():
        yield _use_finding(at)


def required_bytes(at: Installation) -> int:
    """Estimate the room for the log and for a day of adapters; see the constants above."""
    adapters = 0.0
    for zone in at.zones:
        num_nodes = sum(need.num_nodes for need in zone.requirements().devices)
        if zone.required_base is None:
            continue
        base = base_place(zone.required_base, at.cache, zone.base_folder).num_bytes
        adapters += _JOBS_PER_NODE_DAY * _ADAPTER_SHARE * base * num_nodes
    return _MIN_FREE_BYTES + round(adapters)


def disk_finding(free: int, required: int) -> Finding:
    """Check that `free` bytes of a disk are enough for a day, which takes `required` bytes."""
    message = f"{format_gib(free)} free, {format_gib(required)} for a day of adapters"
    fix = "free some space, or set --data to a folder on another disk"
    if free < _MIN_FREE_BYTES:
        return error(message, fix)
    return warn(message, fix) if free < required else ok(message)


def _run_finding(run: Path) -> Finding:
    holder = lock_holder(run / RUN_LOCK)
    use = "" if holder is None else f", in use by process {holder}"
    fix = f"set --data to that of a service; auctune replay --data {run / 'state'} verifies the run"
    return error(f"{run} is the folder of a run, not of a service{use}", fix)


def _use_finding(at: Installation) -> Finding:
    holder = lock_holder(at.data / NODES_LOCK)
    if holder is None:
        writer = lock_holder(at.data / DATABASE_LOCK)
        if writer is None:
            return ok("no service uses it")
        message = f"its database is in use by {writer}, but no service answers"
        return warn(message, "wait until that process, a start or auctune db, has ended")
    if at.url_file.is_file():
        return ok(f"in use by a service: process {holder}")
    message = f"locked by process {holder} or a node that it started, but no service answers"
    return warn(message, f"wait until it has started; if it does not start, stop process {holder}")


def lock_holder(lock: Path) -> str | None:
    """Return the id of the process that holds a lock, or None.

    The lock is tried, shared, and released at once: a service that starts just then tries again.
    """
    with suppress(FileNotFoundError), lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "unknown"
    return None


def check_database(at: Installation) -> Iterator[Finding]:
    """Check that the database can be read, is not damaged, and is of this release."""
    from auctune.service.storage.engine import FILE_NAME, sqlite_file

    assert at.settings is not None
    url = at.settings.database
    try:
        file = at.data / FILE_NAME if url is None else sqlite_file(url)
        if file is not None:
            yield from _sqlite_findings(file)
        else:
            assert url is not None
            yield from _postgresql_findings(url)
    except InputError as caught:
        yield error(f"{caught.place}: {caught.found}", caught.expected)


def _sqlite_findings(path: Path) -> Iterator[Finding]:
    if not path.exists():
        yield ok(f"{path} does not exist yet: the first start creates it")
        return
    log = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if log.exists() else "immutable=1"
    try:
        # No isolation level: SQLAlchemy begins transactions, not the driver.
        with closing(
            sqlite3.connect(
                f"{path.resolve().as_uri()}?{mode}",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        ) as connection:
            pages = _pages_finding(connection, path)
            yield pages
            if pages.severity != Severity.ERROR:
                yield _tables_finding(connection, path)
    except sqlite3.Error as caught:
        yield error(f"{path} cannot be read: {caught}", _RESTORE)


def _pages_finding(connection: sqlite3.Connection, path: Path) -> Finding:
    end = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, _PROGRESS_STEPS)
    try:
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as caught:
        if caught.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        message = f"{path} is too large to be checked within {_CHECK_SECONDS:g} s"
        return warn(message, f"run sqlite3 {path} 'PRAGMA quick_check'")
    finally:
        connection.set_progress_handler(None, _PROGRESS_STEPS)
    if result != "ok":
        return error(f"{path} is damaged: {' '.join(result.split())}", _RESTORE)
    return ok(f"{path}: no page is damaged")


def _tables_finding(connection: sqlite3.Connection, path: Path) -> Finding:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    from auctune.service.storage.engine import check_schema

    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as reader:
        check_schema(reader, str(path))
        log = _log_version(reader)
    with path.open("rb") as file:
        header = file.read(20)
    if header[18:20] != _WAL_VERSION:
        message = f"tables of this release, {log}, without write-ahead logging (WAL)"
        return warn(message, "run auctune serve: it enables WAL")
    return ok(f"tables of this release, {log}, with write-ahead logging (WAL)")


def _log_version(connection: "Connection") -> str:
    """Return the versions of the log as text."""
    from auctune.service.storage.event_log import log_versions

    oldest, newest = log_versions(connection)
    return f"log of version {newest}" + ("" if oldest == newest else f", in part of {oldest}")


def _postgresql_findings(url: str) -> Iterator[Finding]:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import DBAPIError

    from auctune.service.storage.engine import PostgresqlDatabase

    parsed = make_url(url)
    place = parsed.render_as_string(hide_password=True)
    in_time = parsed.update_query_dict({"connect_timeout": _CONNECT_SECONDS})
    engine = PostgresqlDatabase(in_time).reader()
    try:
        with engine.connect() as connection:
            yield from _server_findings(connection, place)
    except DBAPIError as caught:
        reason = str(caught.orig).splitlines()[0]
        fix = "correct database in auctune.toml, or start the server (pg_isready)"
        yield error(f"{place} cannot be reached: {reason}", fix)
    finally:
        engine.dispose()


def _server_findings(connection: "Connection", place: str) -> Iterator[Finding]:
    from auctune.service.storage.engine import check_schema, check_server, holder_of, revision

    with connection.begin():
        release = connection.exec_driver_sql("SHOW server_version").scalar_one()
        check_server(connection, place)
        holder = holder_of(connection)
    owner = "no service uses it" if holder is None else f"in use by {holder}"
    yield ok(f"{place} answers: PostgreSQL {release}; {owner}")
    if revision(connection, place) is None:
        yield ok("the database is empty: the first start creates its tables")
        return
    check_schema(connection, place)
    yield ok(f"tables of this release, {_log_version(connection)}")


def check_clock(at: Installation) -> Iterator[Finding]:
    """Check that the clock is not behind the files of the data folder: slots follow the clock."""
    newest = newest_time(at.data)
    if newest is None:
        yield ok("nothing in the data folder to compare it with")
    else:
        yield clock_finding(newest, time.time())


def newest_time(data: Path) -> float | None:
    """Return when a folder was last written, in unix time; None if it is empty or missing."""
    times = []
    # A running service makes and removes files meanwhile.
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in data.iterdir():
            with suppress(FileNotFoundError):
                times.append(path.stat().st_mtime)
    return max(times, default=None)


def clock_finding(newest: float, now: float) -> Finding:
    """Compare the clock with the time of the last write in the data folder, both in unix time."""
    behind = newest - now
    if behind > _CLOCK_TOLERANCE_SECONDS:
        message = f"{behind:,.0f} s behind the last write in the data folder: slots would be resold"
        return error(message, "set the clock, or wait, before you run auctune serve")
    return ok("not behind the data folder")
