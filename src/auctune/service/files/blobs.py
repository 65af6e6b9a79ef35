"""Contents of files: one file each in a folder, named by its id, there as a whole or not at all.

Beside a data set there may be a folder of its tokens (`tokens_folder`), which goes with it.
"""

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auctune.domain import InputError
from auctune.run.data.client import tokens_folder
from auctune.service.files.disk import FULL, DiskFullError
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
                async for chunk in _in_large(chunks):
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


async def _in_large(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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
