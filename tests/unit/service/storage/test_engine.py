"""Opening a database: who may, and what is said to those who may not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from auctune.domain import InputError
from auctune.service.storage import Store, open_store, upgrade
from auctune.service.storage.event_log import NAME as LOG_VERSION
from auctune.service.storage.identity import ID
from auctune.service.storage.tables import meta, metadata
from support.postgres import PostgresServer
from support.store_rows import num_rows

pytest_plugins = ["support.store_fixtures"]

HOLDER = """
import sys
from auctune.service.storage import open_store
store = open_store(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(database: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the database open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_an_empty_database_has_its_tables_when_it_is_open(store: Store) -> None:
    tables = metadata.sorted_tables
    assert num_rows(store, tables) == [0] * len(tables)


@pytest.mark.slow
def test_a_database_owned_by_another_process_is_refused_by_its_number_and_free_after_its_death(
    database: str, holder: "subprocess.Popen[str]"
) -> None:
    for act in (open_store, upgrade):
        with pytest.raises(InputError, match=rf"is in use by .*process {holder.pid} on \S+"):
            act(database)
    holder.kill()
    holder.wait()
    open_store(database).close()


@pytest.mark.slow
def test_a_database_is_opened_once_even_within_a_process(store: Store, database: str) -> None:
    with pytest.raises(InputError, match=f"process {os.getpid()} "):
        open_store(database)
    store.close()
    open_store(database).close()


def test_readers_cannot_write(store: Store) -> None:
    with (
        store.reader.connect() as connection,
        pytest.raises(DBAPIError, match=r"(?i)read.?only"),
        connection.begin(),
    ):
        connection.execute(meta.insert(), {"name": "a", "value": "b"})


def test_readers_see_what_was_committed_while_the_writer_goes_on(store: Store) -> None:
    with store.writer.begin():
        store.writer.execute(meta.insert(), {"name": "first", "value": ""})
    with store.writer.begin(), store.reader.connect() as connection:
        store.writer.execute(meta.insert(), {"name": "second", "value": ""})
        names = select(meta.c.name).where(meta.c.name.not_in((ID, LOG_VERSION)))
        assert connection.execute(names).scalars().all() == ["first"]


def test_a_data_folder_is_made_and_its_database_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    with open_store(folder) as store:
        journal = store.writer.exec_driver_sql("PRAGMA journal_mode").scalar()
        synchronous = store.writer.exec_driver_sql("PRAGMA synchronous").scalar()
    assert (journal, synchronous) == ("wal", 2)
    assert (folder / "auctune.db").stat().st_mode & 0o077 == 0
    open_store(str(folder)).close()


def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "auctune.db").write_bytes(b"something else entirely" * 100)
    with pytest.raises(InputError, match=r"auctune\.db: cannot be opened: file is not a database"):
        open_store(tmp_path)
    (tmp_path / "auctune.db").unlink()
    open_store(tmp_path).close()


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("mysql://root@localhost/market", "mysql is not supported"),
        ("sqlite://", "does not name a file"),
        ("sqlite:///:memory:", "does not name a file"),
        ("postgresql://u:secret@localhost:notaport/x", "is not a valid URL"),
        ("postgresql://u:secret@/x?host=/nowhere", "cannot be reached"),
    ],
)
def test_a_url_that_cannot_be_used_is_named_without_its_password(url: str, found: str) -> None:
    with pytest.raises(InputError, match=found) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_commits_are_on_disk_whatever_the_database_is_set_to(postgres: PostgresServer) -> None:
    url = postgres.make_database()
    name = url.split("/")[3].split("?")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
        connection.execute(f"ALTER DATABASE {name} SET idle_session_timeout = '1s'".encode())
    with open_store(url) as store:
        for setting, expected in (("synchronous_commit", "on"), ("idle_session_timeout", "0")):
            assert store.writer.exec_driver_sql(f"SHOW {setting}").scalar() == expected


def test_a_database_that_cannot_hold_all_text_is_refused(postgres: PostgresServer) -> None:
    url = postgres.make_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII'")
    name = url.split("/")[3].split("?")[0]
    with pytest.raises(InputError, match="has server_encoding=SQL_ASCII; expected"):
        open_store(url.replace(f"/{name}?", "/ascii?"))
