"""Contents of files, free space on their disk, and the trash.

A data set may have a folder with its tokens beside it (`tokens_folder`), which is deleted with it.
"""

import errno
import hashlib
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.engine.data.client import tokens_folder
from auctune.files.atomic import replace_durably
from auctune.service.fair_queue import FairQueue

_DRAFT = ".draft"
_NAME = re.compile(r"file-[A-Za-z0-9]+")
_CHUNK_BYTES = 1 << 20
_WRITES_AT_ONCE = 4
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk."""
_MIN_FREE_BYTES = 32 * 1024 * 1024
"""For the log and its snapshots at the start."""
RETENTION = timedelta(days=30)
"""Retention time of the trash."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Blob:
    """Size in bytes and SHA-256 of a content."""

    size: int
    sha256: str


class TooLargeError(InputError):
    """An upload is larger than allowed."""


class Blobs:
    """A folder of contents; drafts that a crash left in it are deleted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writes = FairQueue("writes", _WRITES_AT_ONCE)
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(f"*{_DRAFT}"):
            draft.unlink()

    def path(self, name: str) -> Path:
        """Return the path of a file. Ids are the service's own: no user can choose a path."""
        assert name.replace("-", "").isalnum()
        return self._folder / name

    async def write(
        self,
        name: str,
        owner: str,
        chunks: AsyncIterator[bytes],
        limit: int,
        check_room: Callable[[int], None] = lambda _: None,
    ) -> Blob:
        """Write a file, and return once it is on disk. If it fails, nothing of the file stays.

        Owners take turns, for each part of a file. `check_room` raises if there is no room for so
        many more bytes.

        Raises:
            TooLargeError: as soon as it has more than `limit` bytes.
            DiskFullError: if the disk is full.
        """
        draft = self._folder / (name + _DRAFT)
        digest, size = hashlib.sha256(), 0
        in_turn = partial(self._writes.run, owner)
        try:
            with draft.open("xb") as file:
                async for chunk in _rechunk(chunks):
                    size += len(chunk)
                    if size > limit:
                        raise TooLargeError(
                            "file", f"has more than {limit} bytes", "a smaller file"
                        )
                    check_room(len(chunk))
                    await in_turn(partial(_append, file, digest, chunk))
            await in_turn(partial(replace_durably, draft, self.path(name)))
        except BaseException as error:
            draft.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in FULL:
                raise DiskFullError from error
            raise
        return Blob(size, digest.hexdigest())

    def adopt(self, name: str, source: Path) -> Blob:
        """Move a file of the same file system to the contents."""
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        replace_durably(source, self.path(name))
        return Blob(size, digest.hexdigest())

    def names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name)]

    def delete(self, name: str) -> None:
        """Delete a file and its tokens."""
        self.path(name).unlink(missing_ok=True)
        shutil.rmtree(tokens_folder(self.path(name)), ignore_errors=True)

    def delete_stray_tokens(self) -> None:
        """Delete tokens without a file: their writer may have ended after the file's deletion."""
        names = self.names()
        kept = {tokens_folder(self.path(name)) for name in names}
        for folder in self._folder.glob(tokens_folder(Path("*")).name):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)


async def _rechunk(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        if len(held) >= _CHUNK_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _append(file: IO[bytes], digest: "hashlib._Hash", chunk: bytes) -> None:
    digest.update(chunk)
    file.write(chunk)


class DiskFullError(AuctuneError):
    """The service's disk is full, or nearly full: uploads and bids are refused."""

    def __init__(self) -> None:
        super().__init__(
            "the service's disk is nearly full, and the rest is reserved for running jobs; "
            "its operator must free space. Nothing was stored"
        )


class Disk:
    """The disk of a data folder; users' data leave `reserve` bytes for the log and for training."""

    # A bid takes some kilobytes, and all bids of so long less than any reserve.
    _MAX_AGE_SECONDS = 0.1

    def __init__(self, folder: Path, reserve: int) -> None:
        self._folder = folder
        self._reserve = reserve
        self._has_room_until = 0.0

    def check(self, num_bytes: int = 0) -> None:
        """Raise DiskFullError if `num_bytes` of users' data would use the reserve."""
        now = time.monotonic()
        if num_bytes or now > self._has_room_until:
            if shutil.disk_usage(self._folder).free - num_bytes < self._reserve:
                raise DiskFullError
            self._has_room_until = now + self._MAX_AGE_SECONDS


def check_start(folder: Path) -> None:
    """Check that a service can start in a data folder: its disk is not full."""
    free = shutil.disk_usage(folder).free
    if free < _MIN_FREE_BYTES:
        raise full_disk(folder, f"has {free:,} bytes free on its disk")


def full_disk(folder: Path, found: str = "is on a full disk") -> InputError:
    """Return the error for a data folder without room."""
    return InputError(
        str(folder),
        found,
        f"{_MIN_FREE_BYTES:,} bytes at least: free space on that disk, or move the folder to a "
        "larger one (--data). Nothing that was acknowledged is lost",
    )


class Trash:
    """Files that the database does not know, moved here instead of deleted.

    A database that was restored from a backup does not know newer files. Until the retention is
    over an operator finds them here, in a folder for each day.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now

    def take(self, path: Path) -> None:
        """Move a file or folder here; if that fails, it stays where it is."""
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
            _log.warning(
                "cannot move an unknown file to the trash", path=str(path), reason=str(error)
            )
        else:
            _log.warning("moved an unknown file to the trash", path=str(path), to=str(target))

    def purge(self) -> None:
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
