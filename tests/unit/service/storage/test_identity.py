"""A data folder goes with one database; a missing, empty or other one is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.storage import Store, WriteBatch, open_store
from auctune.service.storage.committer import Committer
from auctune.service.storage.identity import ID_FILE, bind, database_id
from auctune.service.storage.tables import events, files
from support.store_rows import event_row, file_row, write

pytest_plugins = ["support.store_fixtures"]

FILE = "file-abc"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder, apart from where the database is."""
    folder = tmp_path / "data"
    (folder / "files").mkdir(parents=True)
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def start(database: str, folder: Path) -> bool:
    with open_store(database, folder) as store:
        return bind(store.writer, folder, store.label)


def test_a_folder_belongs_to_the_database_that_it_was_first_used_with(
    database: str, folder: Path
) -> None:
    assert [start(database, folder) for _ in range(3)] == [False, True, True]


def test_a_folder_that_belongs_to_a_database_gets_no_new_one(database: str, folder: Path) -> None:
    start(f"sqlite:///{folder / 'other.db'}", folder)
    (folder / "other.db").unlink()
    before = contents(folder)
    for _ in range(2):
        with pytest.raises(InputError, match=r"belongs to database .* is missing or empty"):
            start(database, folder)
    assert contents(folder) == before
    if database.startswith("sqlite"):
        assert not Path(database.removeprefix("sqlite:///")).exists()


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_database_that_is_lost_or_emptied_is_not_begun_anew(
    folder: Path, lose: Callable[[Path], object]
) -> None:
    start(str(folder), folder)
    backup = shutil.copy(folder / "auctune.db", folder.parent / "backup.db")
    lose(folder / "auctune.db")
    with pytest.raises(InputError, match="db restore FILE"):
        start(str(folder), folder)
    shutil.copy(backup, folder / "auctune.db")
    assert start(str(folder), folder)


def test_a_folder_with_files_and_no_database_gets_none(database: str, folder: Path) -> None:
    (folder / "files" / FILE).write_bytes(b"rows")
    with pytest.raises(InputError, match=rf"holds {FILE}, and .* is missing or empty"):
        start(database, folder)
    assert (folder / "files" / FILE).read_bytes() == b"rows"


def test_a_folder_of_another_database_is_refused_with_both_ids(database: str, folder: Path) -> None:
    start(f"sqlite:///{folder / 'one.db'}", folder)
    one = (folder / ID_FILE).read_text().strip()
    with open_store(database) as store:
        other = database_id(store.writer)
    with pytest.raises(InputError, match=f"database {one}, and .* is {other}"):
        start(database, folder)


def test_a_database_that_was_served_is_not_served_from_an_empty_folder(
    database: str, folder: Path
) -> None:
    with open_store(database, folder) as store:
        bind(store.writer, folder, store.label)
        with Committer(store) as committer:
            write(committer, WriteBatch().insert(events, event_row(1)))
    known = folder / ID_FILE
    text = known.read_text()
    known.unlink()
    with pytest.raises(InputError, match=f"write {text.strip()} to {known}"):
        start(database, folder)
    known.write_text(text)
    assert start(database, folder)


def test_a_first_start_that_was_cut_short_is_made_again(store: Store, folder: Path) -> None:
    # The database is there; the folder does not say so yet.
    assert not bind(store.writer, folder, store.label)
    assert bind(store.writer, folder, store.label)


@pytest.mark.parametrize(("count", "listed"), [(1, "1 file in it"), (2, "2 files in it")])
def test_a_start_without_the_folder_of_files_is_refused_and_changes_nothing(
    database: str, folder: Path, count: int, listed: str
) -> None:
    with open_store(database, folder) as store, Committer(store) as committer:
        bind(store.writer, folder, store.label)
        deleted = file_row("file-deleted", 9, deleted_at=5.0)
        rows = [file_row(f"file-{number}", number) for number in range(1, count + 1)]
        write(committer, WriteBatch().upsert(files, deleted, *rows))
    (folder / "files").rmdir()
    with pytest.raises(InputError) as refused:
        start(database, folder)
    message = str(refused.value)
    assert message.startswith(f"{folder / 'files'}: does not exist, and the database lists ")
    assert listed in message
    assert not (folder / "files").exists()
    # The operator decides to do without them.
    (folder / "files").mkdir()
    assert start(database, folder)


def test_a_database_whose_files_are_all_deleted_needs_no_folder_of_them(
    database: str, folder: Path
) -> None:
    with open_store(database, folder) as store, Committer(store) as committer:
        bind(store.writer, folder, store.label)
        write(committer, WriteBatch().upsert(files, file_row("file-a", 1, deleted_at=5.0)))
    (folder / "files").rmdir()
    assert start(database, folder)
