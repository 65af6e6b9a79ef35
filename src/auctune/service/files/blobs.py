"""Contents of files, the disk that they are on, and the trash.

Beside a data set there may be a folder of its tokens (`tokens_folder`), which goes with it.
"""

import asyncio
import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import tokens_folder
from auctune.service.private_files import sync_folder

_DRAFT = ".draft"
_OURS = re.compile(r"file-[A-Za-z0-9]+")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """What was written.

    Attributes:
        size: bytes.
        sha256: of them.
    """

    size: int
    sha256: str


class TooLargeError(InputError):
    """A file has more bytes than are taken."""


class Blobs:
    """A folder of contents.

    Args:
        folder: made if it is not there; drafts that were left in it are removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(f"*{_DRAFT}"):
            draft.unlink()

    def path(self, name: str) -> Path:
        """Where a file lies; ids are ours, so that no name of a user's gets here."""
        assert name.replace("-", "").isalnum()
        return self._folder / name

    async def write(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        limit: int,
        check_room: Callable[[int], None] = lambda _: None,
    ) -> Blob:
        """Write a file, on disk before this returns.

        Args:
            name: its id.
            chunks: of its content.
            limit: bytes that it may have.
            check_room: raises if there is no room for so many more bytes.

        Raises:
            TooLargeError: if it has more than `limit` bytes, as soon as it has; whatever is
                raised, nothing of the file stays.
            DiskFullError: if the disk is full.
        """
        draft = self._folder / (name + _DRAFT)
        digest, size = hashlib.sha256(), 0
        try:
            with draft.open("xb") as file:
                async for chunk in _rechunk(chunks):
                    size += len(chunk)
                    if size > limit:
                        raise TooLargeError(
                            "file", f"has more than {limit} bytes", "a smaller file"
                        )
                    check_room(len(chunk))
                    # A disk may take its time; others' requests must not wait for it.
                    await asyncio.to_thread(_append, file, digest, chunk)
                await asyncio.to_thread(_flush, file)
            draft.rename(self.path(name))
        except BaseException as error:
            draft.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in FULL:
                raise DiskFullError from error
            raise
        await asyncio.to_thread(sync_folder, self._folder)
        return Blob(size, digest.hexdigest())

    def adopt(self, name: str, source: Path) -> Blob:
        """Take over a file that was made on this file system; `source` is gone then."""
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
            os.fsync(file.fileno())
        source.rename(self.path(name))
        sync_folder(self._folder)
        return Blob(size, digest.hexdigest())

    def names(self) -> list[str]:
        """Return the names of all files."""
        return [path.name for path in self._folder.iterdir() if _OURS.fullmatch(path.name)]

    def delete(self, name: str) -> None:
        """Remove a file and its tokens, if it is there."""
        self.path(name).unlink(missing_ok=True)
        shutil.rmtree(tokens_folder(self.path(name)), ignore_errors=True)

    def drop_stray_tokens(self) -> None:
        """Remove the tokens of files that are gone: their writer may have ended after them."""
        names = self.names()
        kept = {tokens_folder(self.path(name)) for name in names}
        for folder in self._folder.glob(tokens_folder(Path("*")).name):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)


async def _rechunk(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in larger pieces."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        if len(held) >= _CHUNK:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _append(file: IO[bytes], digest: "hashlib._Hash", chunk: bytes) -> None:
    digest.update(chunk)
    file.write(chunk)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


# Space on the data folder's disk; a reserve is kept for the log and for training.

_START_BYTES = 32 * 1024 * 1024
"""For the log and its snapshots; with less a service does not get far."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFullError(AuctuneError):
    """The service's disk is full, or nearly so: what users send is not stored."""

    def __init__(self) -> None:
        super().__init__(
            "the service's disk is nearly full, and what is left is kept for jobs under way; "
            "its operator must make room. Nothing was stored"
        )


class Disk:
    """The disk of a data folder.

    Args:
        folder: on it, which is there.
        reserve: bytes that users' data leave free.
    """

    def __init__(self, folder: Path, reserve: int) -> None:
        self._folder = folder
        self._reserve = reserve

    def check(self, num_bytes: int = 0) -> None:
        """Check that there is room for users' data.

        Args:
            num_bytes: that are to come.

        Raises:
            DiskFullError: if they would reach into the reserve.
        """
        if shutil.disk_usage(self._folder).free - num_bytes < self._reserve:
            raise DiskFullError


def check_start(folder: Path) -> None:
    """Check that a service can start in a data folder.

    Raises:
        InputError: if its disk is full.
    """
    free = shutil.disk_usage(folder).free
    if free < _START_BYTES:
        raise full_disk(folder, f"has {free:,} bytes free on its disk")


def full_disk(folder: Path, found: str = "is on a disk that is full") -> InputError:
    """Return the error for a data folder without room."""
    return InputError(
        str(folder),
        found,
        f"{_START_BYTES:,} bytes at least: make room on that disk, or move the folder to a larger "
        "one (--data). Nothing that was acknowledged is lost",
    )


# Trash: files that the database does not know are moved here instead of deleted.
#
# A database that was restored from an old backup does not know what is newer. An operator finds it
# here, under the day on which it was moved, until the retention is over.

_log = structlog.get_logger(__name__)

RETENTION = timedelta(days=30)


class Trash:
    """A folder with a folder for each day.

    Args:
        folder: made when something is moved to it.
        now: returns unix time.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now

    def take(self, path: Path) -> None:
        """Move a file or folder here; it stays where it is if that fails."""
        day = self.folder / self._today().isoformat()
        try:
            day.mkdir(parents=True, exist_ok=True)
            target = day / path.name
            number = 1
            while target.exists():
                number += 1
                target = day / f"{path.name}.{number}"
            path.rename(target)
        except OSError as error:
            _log.warning("what the database does not know stays", path=str(path), reason=str(error))
        else:
            _log.warning("moved what the database does not know", path=str(path), to=str(target))

    def purge(self) -> None:
        """Delete the days whose retention is over."""
        if not self.folder.is_dir():
            return
        for day in self.folder.iterdir():
            try:
                is_over = date.fromisoformat(day.name) + RETENTION < self._today()
            except ValueError:
                continue
            if is_over:
                shutil.rmtree(day, ignore_errors=True)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()
