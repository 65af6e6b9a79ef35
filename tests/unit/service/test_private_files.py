"""What the service keeps from other accounts of its machine, and secrets that are whole."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.files.atomic import write_atomically
from auctune.service.private_files import (
    load_key,
    make_private,
    run_at,
    take_data_folder,
    write_private,
)


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The umask of most systems, also afterwards."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder.parent))
        for path in (folder, *folder.rglob("*"))
        if path.lstat().st_mode & 0o077 and not path.is_symlink()
    }


def test_a_new_data_folder_and_all_that_is_made_in_it_is_private(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    take_data_folder(data)
    assert make_private(data) == 0
    (data / "work" / "north").mkdir(parents=True)
    (data / "work" / "north" / "adapter").write_bytes(b"weights")
    write_atomically(data / "result.zip", b"adapter")
    assert open_to_others(data) == set()


def test_a_folder_that_was_open_is_closed_with_all_below(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for name in ("files", "work/north", "logs"):
        (data / name).mkdir(parents=True)
    for name in ("files/file-a", "work/north/adapter", "logs/service.log"):
        (data / name).write_bytes(b"")
    elsewhere.write_bytes(b"")
    (data / "files" / "link").symlink_to(elsewhere)
    before = open_to_others(data)
    take_data_folder(data)
    assert open_to_others(data) == before
    assert make_private(data) == 8
    assert open_to_others(data) == set()
    assert elsewhere.stat().st_mode & 0o777 == 0o644
    assert make_private(data) == 0


def test_a_folder_of_all_users_is_no_data_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(InputError, match="is shared by all users of this machine"):
        take_data_folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("name", [".", "state"])
def test_the_folder_of_a_run_is_no_data_folder(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    (run / "state" / "inputs").mkdir(parents=True)
    assert run_at(run / name) == run
    with pytest.raises(InputError, match="is the folder of a run"):
        take_data_folder(run / name)
    assert run_at(run / "state" / "inputs") is None
    assert open_to_others(run)


def test_the_webhook_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "webhook-key"
    key = load_key(path)
    assert (len(key), path.stat().st_mode & 0o777) == (32, 0o600)
    assert load_key(path) == key
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"", b"\n", b"ab" * 31, b"ab" * 33, b"xy" * 32, b"\xff" * 64])
def test_a_webhook_key_that_is_none_is_refused_with_its_path(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "webhook-key"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{path}: holds {len(content)} bytes .* delete it"):
        load_key(path)
    assert path.read_bytes() == content


def test_a_secret_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_private(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "\ud800")
    assert path.read_text() == "before"
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="key"):
        write_private(path, "after")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
