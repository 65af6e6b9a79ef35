"""A copy is the database as it was at one commit, whatever is written meanwhile."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.storage import WriteBatch, open_readonly, open_store, tables
from auctune.service.storage.committer import Committer
from auctune.service.storage.engine import copy_database

NAMES = ("left", "right")


def write(committer: Committer, value: str) -> None:
    """Two rows that belong together, in one transaction, on disk."""
    kept = threading.Event()
    unit = WriteBatch(lambda error: kept.set())
    committer.submit(unit.upsert(tables.meta, *({"name": n, "value": value} for n in NAMES)))
    assert kept.wait(30)


def values(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT value FROM meta WHERE name IN ('left', 'right')")
        return {value for (value,) in rows}


def test_copies_under_load_are_whole_and_each_of_one_commit(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, closing(Committer(store)) as committer:
        write(committer, "0")
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                write(committer, str(number))

        writer = threading.Thread(target=work)
        writer.start()
        try:
            seen = []
            for number in range(10):
                copy = tmp_path / f"copy-{number}.db"
                copy_database(tmp_path / "auctune.db", copy)
                (value,) = values(copy)
                seen.append(int(value))
        finally:
            stop.set()
            writer.join()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith((".part", "-journal"))]
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_copy_can_be_served_from(tmp_path: Path) -> None:
    with open_store(tmp_path / "old") as store, closing(Committer(store)) as committer:
        write(committer, "7")
    (tmp_path / "new").mkdir()
    # Nobody has the database open: it has no log of writes beside it.
    copy_database(tmp_path / "old" / "auctune.db", tmp_path / "copy.db")
    copy_database(tmp_path / "copy.db", tmp_path / "new" / "auctune.db")
    with open_store(tmp_path / "new") as store, closing(Committer(store)) as committer:
        write(committer, "8")
    assert values(tmp_path / "new" / "auctune.db") == {"8"}
    assert values(tmp_path / "copy.db") == {"7"}


def test_nothing_is_written_over_and_nothing_left_of_what_failed(tmp_path: Path) -> None:
    good, bad, there = tmp_path / "auctune.db", tmp_path / "bad.db", tmp_path / "there.db"
    open_store(tmp_path).close()
    bad.write_bytes(b"no database " * 1000)
    there.write_bytes(b"mine")
    for source, target, message in (
        (good, there, "already exists"),
        (bad, tmp_path / "new.db", "cannot be copied"),
        (tmp_path / "none.db", tmp_path / "new.db", "does not exist"),
        (good, tmp_path / "nowhere" / "new.db", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            copy_database(source, target)
    assert there.read_bytes() == b"mine"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"auctune.db", "auctune.db.lock", "bad.db", "there.db"}


def test_reading_makes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"), open_readonly(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "auctune.db").write_bytes(b"")
    with pytest.raises(InputError, match="is empty"), open_readonly(tmp_path):
        pass
    (tmp_path / "auctune.db").write_bytes(b"no database " * 1000)
    with pytest.raises(InputError, match="cannot be read"), open_readonly(tmp_path):
        pass
