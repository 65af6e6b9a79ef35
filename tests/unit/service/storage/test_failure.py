"""A database that is gone, full or locked: nothing is acknowledged, and nothing is lost."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, event, insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from auctune.service.logging import FILE_NAME as LOG_NAME
from auctune.service.logging import configure
from auctune.service.storage import (
    BatchError,
    Committer,
    Store,
    StoreError,
    WriteBatch,
    engine,
    open_store,
)
from auctune.service.storage.engine import FILE_NAME
from auctune.service.storage.tables import events, meta
from support.postgres import PostgresServer
from support.store_rows import event_row, job_unit, meta_unit, rows_of, write, write_together
from support.waits import poll

PSYCOPG = "postgresql+psycopg"

pytest_plugins = ["support.store_fixtures"]


def forbid_sessions(url: str, *, allowed: bool = False) -> None:
    """End all sessions of a PostgreSQL database, and have it take no new ones."""
    name = make_url(url).database
    server = make_url(url).set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")
        if not allowed:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s",
                [name],
            )


def move_away(url: str) -> None:
    path = Path(str(make_url(url).database))
    path.rename(path.with_name("elsewhere.db"))


def break_off(store: Store, url: str) -> Callable[[], None]:
    """Take the database away from the store; returns what gives it back."""
    if store.writer.dialect.name == "postgresql":
        forbid_sessions(url)
        return lambda: forbid_sessions(url, allowed=True)
    path = Path(str(make_url(url).database))
    move_away(url)

    def give_back() -> None:
        path.with_name("elsewhere.db").replace(path)

    return give_back


@contextmanager
def waiting(committer: Committer, *units: WriteBatch) -> Iterator[SimpleQueue[Exception | None]]:
    """Submit units to a database that cannot be written; their errors, once it was noticed."""
    told: SimpleQueue[Exception | None] = SimpleQueue()
    for unit in units:
        unit.done = told.put
        committer.submit(unit)
    poll(lambda: committer.outage is not None)
    assert told.empty()
    yield told


def names(store: Store) -> list[str]:
    return [row["name"] for row in rows_of(store, meta)]


def test_what_is_submitted_while_the_database_is_gone_is_written_when_it_is_back(
    store: Store, committer: Committer, database: str
) -> None:
    assert write(committer, meta_unit("before")) == [None]
    give_back = break_off(store, database)
    with (
        capture_logs() as logs,
        waiting(committer, *map(meta_unit, "abc"), job_unit(committer, "job")) as told,
    ):
        give_back()
        assert [told.get(timeout=60) for _ in range(4)] == [None] * 4
    assert committer.outage is None
    assert write(committer, meta_unit("later")) == [None]
    assert names(store) == ["a", "b", "before", "c", "later"]
    assert [row["job"] for row in rows_of(store, events)] == ["job"]
    assert [log["event"] for log in logs] == [
        "the database cannot be written",
        *["the database is not back yet"] * (len(logs) - 2),
        "the database is written again",
    ]


@pytest.mark.parametrize("is_bad", [False, True])
def test_a_commit_that_was_interrupted_is_neither_lost_nor_repeated(
    store: Store, committer: Committer, is_bad: bool
) -> None:
    followed, units = [], [job_unit(committer, name) for name in "ab"]
    units[0].then = lambda: followed.append("a")
    if is_bad:
        # Behind savepoints, one of which is rolled back.
        units.insert(0, meta_unit("twice").insert(meta, {"name": "twice", "value": ""}))

    @event.listens_for(store.writer, "commit", once=True)
    def break_after_commit(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.execute("COMMIT")
        raise OperationalError("COMMIT", None, OSError("the connection broke"))

    errors = write_together(committer, *units)
    assert errors[-2:] == [None, None]
    assert [type(error) for error in errors[:-2]] == [BatchError] * is_bad
    assert [row["job"] for row in rows_of(store, events)] == ["a", "b"]
    assert followed == ["a"]


def test_a_commit_that_did_not_happen_is_repeated(store: Store, committer: Committer) -> None:
    @event.listens_for(store.writer, "commit", once=True)
    def break_before_commit(_: Connection) -> None:
        raise OperationalError("COMMIT", None, OSError("the connection broke"))

    assert write(committer, job_unit(committer, "a")) == [None]
    assert [row["job"] for row in rows_of(store, events)] == ["a"]


@pytest.mark.slow
def test_a_log_that_another_process_continued_meanwhile_ends_it(
    store: Store, committer: Committer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write(committer, job_unit(committer, "a")) == [None]
    is_continued, reconnect = threading.Event(), store.reconnect
    monkeypatch.setattr(store, "reconnect", lambda: is_continued.wait(60) and reconnect())
    give_back = break_off(store, database)
    with waiting(committer, meta_unit("lost")) as told:
        give_back()
        url = make_url(database)
        is_server = url.get_backend_name() == "postgresql"
        other = create_engine(url.set(drivername=PSYCOPG) if is_server else url)
        with other.begin() as connection:
            connection.execute(insert(events), [event_row(99)])
        other.dispose()
        is_continued.set()
        error = told.get(timeout=60)
    assert isinstance(error, StoreError)
    assert "ends at number 99, and not at 3" in str(error)
    assert write(committer, meta_unit("later")) == [committer.failure] == [error]
    assert names(store) == []


@pytest.mark.slow
def test_closing_while_the_database_is_gone_waits_for_nothing(
    store: Store, committer: Committer, database: str
) -> None:
    give_back = break_off(store, database)
    with waiting(committer, meta_unit("a")) as told:
        committer.close()
        assert isinstance(told.get(timeout=60), StoreError)
    give_back()


@pytest.mark.slow
def test_a_reader_of_a_database_that_is_gone_says_so_without_its_text(
    crashing_postgres: PostgresServer,
) -> None:
    url = crashing_postgres.make_database()
    with open_store(url) as store:
        assert names(store) == []
        crashing_postgres.crash()
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot be read"):
                names(store)
        crashing_postgres.start()
        assert names(store) == []


def test_a_database_that_another_process_locks_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 0.01)
    with open_store(tmp_path) as store, Committer(store) as committer:
        other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with waiting(committer, meta_unit("a")) as told:
            other.execute("COMMIT")
            assert told.get(timeout=60) is None
        other.close()
        assert names(store) == ["a"]


def test_a_full_disk_is_waited_for_though_the_log_has_no_room_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / LOG_NAME).symlink_to("/dev/full")
    with configure(logs), open_store(tmp_path) as store, Committer(store) as committer:
        pages = store.writer.exec_driver_sql("PRAGMA page_count").scalar_one()
        store.writer.rollback()
        full = (*engine._WRITER, f"max_page_count = {pages + 20}")
        store.writer.exec_driver_sql(f"PRAGMA {full[-1]}")
        store.writer.rollback()
        pragmas = engine._WRITER
        monkeypatch.setattr(engine, "_WRITER", full)
        assert write(committer, meta_unit("first")) == [None]
        units = [meta_unit(f"{number:03}", "x" * 3000) for number in range(100)]
        told: SimpleQueue[Exception | None] = SimpleQueue()
        for unit in units:
            unit.done = told.put
            committer.submit(unit)
        poll(lambda: committer.outage is not None)
        assert "full" in str(committer.outage)
        assert "first" in names(store)
        monkeypatch.setattr(engine, "_WRITER", pragmas)
        assert [told.get(timeout=60) for _ in units] == [None] * 100
        assert len(names(store)) == 101


def test_another_file_in_the_place_of_the_database_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with open_store(tmp_path) as store, Committer(store) as committer:
        path.rename(tmp_path / "elsewhere.db")
        path.touch()
        with waiting(committer, meta_unit("a")) as told:
            assert "was replaced by another file" in str(committer.outage)
            assert path.stat().st_size == 0
            (tmp_path / "elsewhere.db").replace(path)
            assert told.get(timeout=60) is None
        assert names(store) == ["a"]


@pytest.mark.slow
def test_a_server_that_crashes_keeps_what_was_acknowledged_and_writes_the_rest_later(
    crashing_postgres: PostgresServer,
) -> None:
    url = crashing_postgres.make_database()
    with open_store(url) as store, Committer(store) as committer:
        assert write_together(committer, *map(meta_unit, "abc")) == [None] * 3
        crashing_postgres.crash()
        with waiting(committer, meta_unit("d")) as told:
            crashing_postgres.start()
            assert told.get(timeout=60) is None
        assert names(store) == ["a", "b", "c", "d"]
