"""Contents of files: one file each in a folder, named by its id, there as a whole or not at all."""

import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError

_DRAFT = ".draft"


@dataclass(frozen=True, slots=True)
class Blob:
    """What was written.

    Attributes:
        size: bytes.
        sha256: of them.
    """

    size: int
    sha256: str


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

    async def write(self, name: str, chunks: AsyncIterator[bytes], limit: int) -> Blob:
        """Write a file, on disk before this returns.

        Raises:
            InputError: if it has more than `limit` bytes; nothing of it stays.
        """
        draft = self._folder / (name + _DRAFT)
        digest, size = hashlib.sha256(), 0
        try:
            with draft.open("xb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > limit:
                        raise InputError("file", f"has more than {limit} bytes", "a smaller file")
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self.path(name))
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(self._folder)
        return Blob(size, digest.hexdigest())

    def take(self, name: str, source: Path) -> Blob:
        """Take over a file that was made on this file system; `source` is gone then."""
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
            os.fsync(file.fileno())
        source.rename(self.path(name))
        sync_folder(self._folder)
        return Blob(size, digest.hexdigest())

    def drop(self, name: str) -> None:
        """Remove a file, if it is there."""
        self.path(name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """See that the names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
