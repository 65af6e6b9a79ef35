"""Data folders, databases and clocks: usable, damaged, in use or missing; none is changed."""

import hashlib
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import psycopg
import pytest
from sqlalchemy import insert, update

from auctune.client.endpoint import URL_FILE
from auctune.doctor import Finding, Severity, checks_storage
from auctune.doctor.checks_storage import (
    check_clock,
    check_data_folder,
    check_database,
    clock_finding,
    disk_finding,
    lock_holder,
    newest_time,
    required_bytes,
)
from auctune.doctor.installation import write_error
from auctune.engine.file_lock import NODES_LOCK, lock_file
from auctune.service.storage import open_store
from auctune.service.storage.engine import FILE_NAME
from auctune.service.storage.event_log import NAME, VERSION
from auctune.service.storage.tables import events, meta
from auctune.standalone.folder import RunFolder
from support.installations import make_installation, only, severities
from support.other_user import without_rights
from support.postgres import PostgresServer
from support.store_rows import event_row

pytest_plugins = ["support.store_fixtures"]


def test_a_folder_that_is_not_there_yet_will_be_made(tmp_path: Path) -> None:
    findings = list(check_data_folder(make_installation(tmp_path)))
    assert severities(findings) == {Severity.OK}
    assert "does not exist yet" in findings[0].message
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_rights_is_wrong(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if above == Path(gettempdir()):
            break
        above.chmod(0o755)
    (tmp_path / "data").mkdir(mode=0o555)
    at = make_installation(tmp_path)
    with without_rights():
        refused = only(list(check_data_folder(at)), Severity.ERROR)
        assert "Permission denied" in refused.message
    assert "chmod" in refused.fix
    assert write_error(tmp_path) is None


def test_a_folder_that_is_a_file_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert (
        "is not a folder"
        in only(list(check_data_folder(make_installation(tmp_path))), Severity.ERROR).message
    )


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert severities(list(check_data_folder(make_installation(tmp_path)))) == {Severity.OK}
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("free", "state"), [(1 << 20, Severity.ERROR), (1 << 30, Severity.WARN), (1 << 40, Severity.OK)]
)
def test_a_full_disk_is_wrong_and_one_that_fills_within_a_day_a_warning(
    free: int, state: Severity
) -> None:
    assert disk_finding(free, 10 << 30).severity == state


def test_a_larger_base_and_more_nodes_need_more_disk_finding(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    with (base / "model.safetensors").open("wb") as file:
        file.truncate(100 << 30)
    node = '[[zones.nodes]]\nid = "{}"\ntype = "local"\n'
    needed = [
        required_bytes(make_installation(tmp_path, f"[[zones]]\nbase = '{base}'\n{nodes}"))
        for nodes in (node.format("a"), node.format("a") + node.format("b"))
    ]
    least = required_bytes(make_installation(tmp_path))
    assert least < needed[0] < needed[1]
    assert needed[1] - least == pytest.approx(2 * (needed[0] - least))


def test_a_folder_in_use_is_told_by_its_process(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    at = make_installation(tmp_path)
    assert lock_holder(data / NODES_LOCK) is None
    with lock_file(data / NODES_LOCK, "data"):
        opening = only(list(check_data_folder(at)), Severity.WARN)
        assert f"process {os.getpid()}" in opening.message
        (data / URL_FILE).write_text("http://127.0.0.1:1\n")
        assert severities(list(check_data_folder(at))) == {Severity.OK}
        assert f"process {os.getpid()}" in list(check_data_folder(at))[-1].message
    assert "no service uses it" in list(check_data_folder(at))[-1].message
    with open_store(data):
        using = only(list(check_data_folder(at)), Severity.WARN)
        assert f"database is in use by process {os.getpid()}" in using.message


@pytest.mark.parametrize("name", [".", "state"])
def test_the_folder_of_a_run_is_told_with_its_process(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.inputs.mkdir(parents=True)
    at = replace(make_installation(tmp_path), data=folder.root / name)
    with folder.locked():
        found = only(list(check_data_folder(at)), Severity.ERROR)
    told = f"{folder.root} is the folder of a run, not of a service, in use by process"
    assert found.message == f"{told} {os.getpid()}"
    assert str(folder.state) in found.fix


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        (VERSION, f"log of version {VERSION}, in part of {VERSION - 1}"),
        (VERSION - 1, f"log of version {VERSION - 1},"),
        (VERSION + 1, f"log: is of version {VERSION + 1}"),
    ],
)
def test_a_log_is_named_with_its_versions_and_a_newer_one_is_wrong(
    tmp_path: Path, newest: int, said: str
) -> None:
    with open_store(tmp_path / "data") as store, store.writer.begin():
        store.writer.execute(insert(events).values(event_row(1, version=VERSION - 1)))
        store.writer.execute(update(meta).where(meta.c.name == NAME).values(value=str(newest)))
    finding = check_folder(tmp_path)[-1]
    assert said in finding.message
    assert (finding.severity == Severity.ERROR) == (newest > VERSION)


def check_folder(folder: Path) -> list[Finding]:
    return list(check_database(make_installation(folder)))


def contents(folder: Path) -> dict[str, str]:
    """All files of a folder by digest."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    with open_store(folder) as store, store.writer.begin():
        for number in range(2000):
            store.writer.exec_driver_sql("INSERT INTO meta VALUES (?, 'value')", (f"{number}",))
    return folder


def test_a_database_that_is_not_there_will_be_made(tmp_path: Path) -> None:
    assert severities(check_folder(tmp_path)) == {Severity.OK}
    assert list(tmp_path.iterdir()) == []


def test_a_whole_database_is_right_and_is_left_as_it_was(data: Path) -> None:
    before = contents(data)
    findings = check_folder(data.parent)
    assert severities(findings) == {Severity.OK}
    assert "no page is damaged" in findings[0].message
    assert "(WAL)" in findings[1].message
    assert contents(data) == before


def test_a_database_in_use_is_read_all_the_same(data: Path) -> None:
    with open_store(data) as store, store.writer.begin():
        store.writer.exec_driver_sql("INSERT INTO meta VALUES ('x', 'y')")
        assert severities(check_folder(data.parent)) == {Severity.OK}


def test_a_damaged_page_is_wrong_and_says_how_to_restore(data: Path) -> None:
    path = data / FILE_NAME
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    broken = only(check_folder(data.parent), Severity.ERROR)
    assert "auctune db restore" in broken.fix


def test_a_file_that_is_no_database_is_wrong(data: Path) -> None:
    (data / FILE_NAME).write_bytes(b"something else entirely" * 100)
    assert "file is not a database" in only(check_folder(data.parent), Severity.ERROR).message


def test_a_database_of_something_else_is_wrong(data: Path) -> None:
    with open_store(data) as store, store.writer.begin():
        store.writer.exec_driver_sql("DROP TABLE alembic_version")
    assert "not auctune's" in only(check_folder(data.parent), Severity.ERROR).message


def test_a_database_of_another_release_is_wrong(data: Path) -> None:
    with open_store(data) as store, store.writer.begin():
        store.writer.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    other = only(check_folder(data.parent), Severity.ERROR)
    assert "revision 9999" in other.message
    assert "a newer release of auctune" in other.fix


def test_a_database_too_large_to_be_read_in_time_is_a_warning(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks_storage, "_PROGRESS_STEPS", 1)
    monkeypatch.setattr(checks_storage, "_CHECK_SECONDS", -1.0)
    warned = only(check_folder(data.parent), Severity.WARN)
    assert "too large to be checked" in warned.message


def test_a_database_that_does_not_write_ahead_is_a_warning(data: Path) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    assert "without write-ahead" in only(check_folder(data.parent), Severity.WARN).message


def check_url(folder: Path, url: str) -> list[Finding]:
    return list(check_database(make_installation(folder, f'database = "{url}"\n')))


def test_postgresql_is_right_empty_or_with_its_tables_and_names_its_owner(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.make_database()
    empty = check_url(tmp_path, url)
    assert severities(empty) == {Severity.OK}
    assert "is empty" in empty[1].message
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchone()
    assert tables == (0,)
    with open_store(url):
        owned = check_url(tmp_path, url)
    assert severities(owned) == {Severity.OK}
    assert "in use by auctune: process" in owned[0].message
    assert "tables of this release" in owned[1].message
    assert "no service uses it" in check_url(tmp_path, url)[0].message


def test_postgresql_with_tables_of_another_is_wrong(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.make_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE other (x int)")
    assert "not auctune's: other" in only(check_url(tmp_path, url), Severity.ERROR).message


def test_a_server_that_is_not_there_is_wrong_and_no_password_is_shown(tmp_path: Path) -> None:
    (gone,) = check_url(tmp_path, "postgresql://u:secret@127.0.0.1:9/x")
    assert gone.severity == Severity.ERROR
    assert "cannot be reached" in gone.message
    assert "secret" not in gone.message + gone.fix


def test_a_url_of_no_database_that_is_known_is_wrong(tmp_path: Path) -> None:
    found = only(check_url(tmp_path, "mysql://x@y/z"), Severity.ERROR)
    assert "mysql is not supported" in found.message


def test_a_clock_behind_its_own_files_is_wrong(tmp_path: Path) -> None:
    assert newest_time(tmp_path / "none") is None
    assert newest_time(tmp_path) is None
    (tmp_path / "auctune.db").touch()
    os.utime(tmp_path / "auctune.db", (0, time.time() + 3600))
    newest = newest_time(tmp_path)
    assert newest is not None
    assert clock_finding(newest, time.time()).severity == Severity.ERROR
    assert clock_finding(newest, newest + 1.0).severity == Severity.OK


def test_a_clock_is_checked_without_any_data(tmp_path: Path) -> None:
    assert Severity.ERROR not in severities(check_clock(make_installation(tmp_path)))


def test_rights_are_really_gone_in_these_tests(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with without_rights(), pytest.raises(PermissionError):
        (tmp_path / "x").touch()
