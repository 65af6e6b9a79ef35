"""Databases that are whole, damaged, foreign, old, in use or not there; none is changed."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from auctune.service.doctor import Finding, State, sqlite_database
from auctune.service.doctor.database import look
from auctune.service.store import open_store
from auctune.service.store.engine import FILE_NAME
from support.examined import found, installation, only, states
from support.postgres import PostgresServer

pytest_plugins = ["support.store_fixtures"]


def examined(folder: Path) -> list[Finding]:
    return found(look, installation(folder))


def contents(folder: Path) -> dict[str, str]:
    """All files of a folder by digest."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a database that was closed."""
    folder = tmp_path / "data"
    with open_store(folder) as store, store.writer.begin():
        for number in range(2000):
            store.writer.exec_driver_sql("INSERT INTO meta VALUES (?, 'value')", (f"{number}",))
    return folder


def test_a_database_that_is_not_there_will_be_made(tmp_path: Path) -> None:
    assert states(examined(tmp_path)) == {State.OK}
    assert list(tmp_path.iterdir()) == []


def test_a_whole_database_is_right_and_is_left_as_it_was(data: Path) -> None:
    before = contents(data)
    findings = examined(data.parent)
    assert states(findings) == {State.OK}
    assert "all pages are whole" in findings[0].said
    assert "(WAL)" in findings[1].said
    assert contents(data) == before


def test_a_database_in_use_is_read_all_the_same(data: Path) -> None:
    with open_store(data) as store, store.writer.begin():
        store.writer.exec_driver_sql("INSERT INTO meta VALUES ('x', 'y')")
        assert states(examined(data.parent)) == {State.OK}


def test_a_damaged_page_is_wrong_and_says_how_to_restore(data: Path) -> None:
    path = data / FILE_NAME
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    broken = only(examined(data.parent), State.WRONG)
    assert "auctune db restore" in broken.mend


def test_a_file_that_is_no_database_is_wrong(data: Path) -> None:
    (data / FILE_NAME).write_bytes(b"something else entirely" * 100)
    assert "file is not a database" in only(examined(data.parent), State.WRONG).said


def test_a_database_of_something_else_is_wrong(data: Path) -> None:
    with open_store(data) as store, store.writer.begin():
        store.writer.exec_driver_sql("DROP TABLE alembic_version")
    assert "not auctune's" in only(examined(data.parent), State.WRONG).said


def test_a_database_of_another_release_is_wrong(data: Path) -> None:
    with open_store(data) as store, store.writer.begin():
        store.writer.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    other = only(examined(data.parent), State.WRONG)
    assert "revision 9999" in other.said
    assert "a newer release of auctune" in other.mend


def test_a_database_too_large_to_be_read_in_time_is_a_warning(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "_STEPS", 1)
    monkeypatch.setattr(sqlite_database, "_CHECK_SECONDS", -1.0)
    warned = only(examined(data.parent), State.WARN)
    assert "too large to be checked" in warned.said


def test_a_database_that_does_not_write_ahead_is_a_warning(data: Path) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    assert "does not write ahead" in only(examined(data.parent), State.WARN).said


def of_url(folder: Path, url: str) -> list[Finding]:
    return found(look, installation(folder, f'database = "{url}"\n'))


def test_postgresql_is_right_empty_or_with_its_tables_and_names_its_owner(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.make_database()
    empty = of_url(tmp_path, url)
    assert states(empty) == {State.OK}
    assert "it is empty" in empty[1].said
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchone()
    assert tables == (0,)
    with open_store(url):
        owned = of_url(tmp_path, url)
    assert states(owned) == {State.OK}
    assert "owned by auctune: process" in owned[0].said
    assert "its tables are of this release" in owned[1].said
    assert "no service owns it" in of_url(tmp_path, url)[0].said


def test_postgresql_with_tables_of_another_is_wrong(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.make_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE other (x int)")
    assert "not auctune's: other" in only(of_url(tmp_path, url), State.WRONG).said


def test_a_server_that_is_not_there_is_wrong_and_no_password_is_shown(tmp_path: Path) -> None:
    (gone,) = of_url(tmp_path, "postgresql://u:secret@127.0.0.1:9/x")
    assert gone.state == State.WRONG
    assert "cannot be reached" in gone.said
    assert "secret" not in gone.said + gone.mend


def test_a_url_of_no_database_that_is_known_is_wrong(tmp_path: Path) -> None:
    assert "mysql is not known" in only(of_url(tmp_path, "mysql://x@y/z"), State.WRONG).said
