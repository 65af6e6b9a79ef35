"""What is in the folder of files after a start: what the database knows, and nothing is lost."""

import asyncio
import errno
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from auctune.domain import InputError
from auctune.engine.data.client import tokens_folder
from auctune.service.config.models import LimitsConfig
from auctune.service.files.blobs import RETENTION, Blobs, Disk, DiskFullError, Trash, check_start
from auctune.service.files.repository import FileRecord, FileRepository, Purpose
from auctune.service.storage import Committer, Queries, open_store

LIMITS = LimitsConfig(
    upload_bytes=1000,
    files=8,
    stored_bytes=1000,
)


class Name:
    filename = "rows.jsonl"
    purpose = Purpose.TRAINING
    expires_seconds: int | None = None


async def _rows() -> AsyncIterator[bytes]:
    yield b"rows"


def uploaded(folder: Path, then_delete: bool = False) -> FileRecord:
    """A start of the service in which one file is uploaded."""

    async def run() -> FileRecord:
        with open_store(folder) as store, Committer(store) as committer:
            files = FileRepository(folder / "files", Queries(store.reader), committer, LIMITS)
            record = await files.add("ada", Name(), _rows())
            if then_delete:
                await files.delete(record)
            return record

    return asyncio.run(asyncio.wait_for(run(), 30))


def start(folder: Path) -> None:
    with open_store(folder) as store, Committer(store) as committer:
        FileRepository(folder / "files", Queries(store.reader), committer, LIMITS)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_contents_that_no_row_names_are_moved_to_the_trash(tmp_path: Path) -> None:
    known = uploaded(tmp_path)
    (tmp_path / "files" / "file-newer").write_bytes(b"newer than the backup")
    start(tmp_path)
    assert names(tmp_path / "files") == {known.id}
    (moved,) = (tmp_path / "trash").rglob("file-newer")
    assert moved.read_bytes() == b"newer than the backup"


def test_contents_of_a_deleted_file_are_deleted_at_the_next_start_if_a_crash_left_them(
    tmp_path: Path,
) -> None:
    deleted = uploaded(tmp_path, then_delete=True)
    (tmp_path / "files" / deleted.id).write_bytes(b"rows")
    start(tmp_path)
    assert names(tmp_path / "files") == set()
    assert not (tmp_path / "trash").exists()


@pytest.mark.parametrize("more", [0, 1])
def test_the_trash_is_kept_for_the_retention(tmp_path: Path, more: int) -> None:
    time = 1_800_000_000.0
    (tmp_path / "file-a").write_bytes(b"rows")
    trash = Trash(tmp_path / "trash", lambda: time)
    trash.take(tmp_path / "file-a")
    time += (RETENTION + timedelta(days=more)).total_seconds()
    trash.purge()
    assert names(trash.folder) == (set() if more else {"file-a"})


async def _broken_off(error: OSError) -> AsyncIterator[bytes]:
    yield b"rows"
    raise error


@pytest.mark.parametrize(
    ("reserve", "chunks"),
    [
        (10**15, _rows()),
        (0, _broken_off(OSError(errno.ENOSPC, "No space left on device"))),
        (0, _broken_off(OSError(errno.EDQUOT, "Disk quota exceeded"))),
    ],
    ids=["reserve", "full", "quota"],
)
def test_an_upload_without_room_on_the_disk_is_refused_and_leaves_nothing(
    tmp_path: Path, reserve: int, chunks: AsyncIterator[bytes]
) -> None:
    async def run() -> None:
        with open_store(tmp_path) as store, Committer(store) as committer:
            disk = Disk(tmp_path, reserve)
            files = FileRepository(
                tmp_path / "files", Queries(store.reader), committer, LIMITS, disk=disk
            )
            with pytest.raises(DiskFullError, match="operator must free space"):
                await files.add("ada", Name(), chunks)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert names(tmp_path / "files") == set()


def test_a_start_on_a_full_disk_names_the_folder_and_what_to_do() -> None:
    # This file system never has a byte free.
    with pytest.raises(InputError, match=r"/proc: has 0 bytes free on its disk; .* free space"):
        check_start(Path("/proc"))


def test_two_things_of_one_name_are_both_kept(tmp_path: Path) -> None:
    trash = Trash(tmp_path / "trash")
    for content in (b"one", b"two"):
        (tmp_path / "file-a").write_bytes(content)
        trash.take(tmp_path / "file-a")
    found = {path.read_bytes() for path in trash.folder.rglob("file-a*")}
    assert found == {b"one", b"two"}


def test_stored_tokens_go_with_their_file_and_those_of_files_that_are_gone_at_the_start(
    tmp_path: Path,
) -> None:
    kept = uploaded(tmp_path)
    files = tmp_path / "files"
    for name in (kept.id, "file-gone", "file-strange"):
        tokens_folder(files / name).mkdir()
        (tokens_folder(files / name) / "0.npz").touch()
    (files / "file-strange").write_bytes(b"of no row")
    start(tmp_path)
    assert names(files) == {kept.id, "0.npz"}
    assert tokens_folder(files / kept.id).is_dir()
    Blobs(files).delete(kept.id)
    assert list(files.iterdir()) == []


def test_a_start_with_missing_contents_warns_once_and_refuses_jobs_that_need_them(
    tmp_path: Path,
) -> None:
    lost, other_lost, kept = (uploaded(tmp_path) for _ in range(3))
    for record in (lost, other_lost):
        (tmp_path / "files" / record.id).unlink()

    async def require(files: FileRepository) -> None:
        assert (await files.require(kept.id, "ada", "training_file")).sha256 == kept.sha256
        with pytest.raises(InputError, match=f"^training_file: the content of '{lost.id}' is miss"):
            await files.require(lost.id, "ada", "training_file")
        with pytest.raises(InputError, match=f"^training_file: there is no file '{lost.id}'"):
            await files.require(lost.id, "bob", "training_file")
        assert [record.id for record in await files.unexamined()] == [kept.id]

    with open_store(tmp_path) as store, Committer(store) as committer, capture_logs() as logs:
        files = FileRepository(tmp_path / "files", Queries(store.reader), committer, LIMITS)
        asyncio.run(require(files))
        # The row stays, for content that is restored.
        assert Queries(store.reader).file_ids() == {lost.id, other_lost.id, kept.id}
    (warning,) = logs
    found = warning["folder"], warning["missing"], warning["of"], warning["log_level"]
    assert found == (str(tmp_path / "files"), 2, 3, "warning")


def test_content_that_was_restored_is_found_at_the_next_start(tmp_path: Path) -> None:
    record = uploaded(tmp_path)
    content = tmp_path / "files" / record.id
    moved = content.rename(tmp_path / "backup")
    start(tmp_path)
    moved.rename(content)
    with capture_logs() as logs:
        start(tmp_path)
    assert logs == []
