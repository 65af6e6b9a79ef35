"""A database that is gone or full: nobody is told that anything was written, until it is opened."""

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from auctune.service.logging import FILE_NAME as LOG_NAME
from auctune.service.logging import configure
from auctune.service.storage import Committer, Store, StoreError, open_store
from auctune.service.storage.engine import FILE_NAME
from auctune.service.storage.tables import meta
from support.postgres import PostgresServer
from support.store_rows import meta_unit, rows_of, write, write_together

pytest_plugins = ["support.store_fixtures"]


def cut_sessions(url: str) -> None:
    """End all sessions of a PostgreSQL database, as an operator may."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def move_away(url: str) -> None:
    path = Path(str(make_url(url).database))
    path.rename(path.with_name("elsewhere.db"))


def break_off(store: Store, url: str) -> Callable[[], None]:
    """Take the database away from the store; returns what gives it back."""
    if store.writer.dialect.name == "postgresql":
        cut_sessions(url)
        return lambda: None
    path = Path(str(make_url(url).database))
    move_away(url)

    def give_back() -> None:
        path.with_name("elsewhere.db").replace(path)

    return give_back


def test_when_the_database_is_gone_all_fail_until_it_is_opened_anew(
    store: Store, committer: Committer, database: str
) -> None:
    assert write(committer, meta_unit("before")) == [None]
    give_back = break_off(store, database)
    errors = write(committer, *(meta_unit(f"lost{number}") for number in range(5)))
    assert {type(error) for error in errors} == {StoreError}
    assert committer.failure is not None
    give_back()
    # It works again, but what was lost meanwhile must be read from it first.
    assert write(committer, meta_unit("later")) == [committer.failure]
    committer.close()
    store.close()
    with open_store(database) as again, Committer(again) as working:
        assert write(working, meta_unit("after")) == [None]
        assert [row["name"] for row in rows_of(again, meta)] == ["after", "before"]


def test_who_waits_is_told_though_the_log_has_no_room_either(tmp_path: Path) -> None:
    logs, told = tmp_path / "logs", threading.Event()
    logs.mkdir()
    (logs / LOG_NAME).symlink_to("/dev/full")
    with configure(logs), open_store(tmp_path) as store, Committer(store) as committer:
        (tmp_path / FILE_NAME).rename(tmp_path / "elsewhere.db")
        unit = meta_unit("lost")
        unit.done = lambda error: told.set() if error is not None else None
        committer.submit(unit)
        assert told.wait(60)


def test_a_full_disk_fails_all_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Committer(store) as committer:
        pages = store.writer.exec_driver_sql("PRAGMA page_count").scalar_one()
        store.writer.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")
        store.writer.rollback()
        written = []
        for number in range(100):
            (error,) = write(committer, meta_unit(f"{number:03}", "x" * 3000))
            if error is not None:
                break
            written.append(f"{number:03}")
        assert isinstance(error, StoreError)
        assert "full" in str(error)
        (bad,) = write(committer, meta_unit("small"))
        assert bad is error
    assert 1 < len(written) < 99
    with open_store(tmp_path) as store:
        assert [row["name"] for row in rows_of(store, meta)] == written


def test_another_file_in_the_place_of_the_database_is_not_written_to(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Committer(store) as committer:
        move_away(f"sqlite:///{tmp_path / 'auctune.db'}")
        (tmp_path / "auctune.db").touch()
        (error,) = write(committer, meta_unit("a"))
    assert isinstance(error, StoreError)
    assert "was replaced by another file" in str(error)


def test_a_server_that_crashes_keeps_what_was_acknowledged(
    crashing_postgres: PostgresServer,
) -> None:
    url = crashing_postgres.make_database()
    with open_store(url) as store, Committer(store) as committer:
        assert write_together(committer, *map(meta_unit, "abc")) == [None] * 3
        crashing_postgres.crash()
        (error,) = write(committer, meta_unit("d"))
        assert isinstance(error, StoreError)
    crashing_postgres.start()
    with open_store(url) as store:
        assert [row["name"] for row in rows_of(store, meta)] == ["a", "b", "c"]
