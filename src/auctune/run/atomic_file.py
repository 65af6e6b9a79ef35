"""A file that appears whole or not at all, also across a crash."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from auctune.train.folders import sync_folder, sync_path


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, flush it to disk, then rename it to `path`."""
    with atomic_file(path) as draft:
        draft.write(data)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A draft beside `path`, flushed to disk and renamed to `path` at the end of the block."""
    # Unlike a temporary file's, its mode is that of any new file: the process's umask decides.
    with (path.parent / f".{path.name}.{secrets.token_hex(4)}").open("xb") as draft:
        try:
            yield draft
            draft.flush()
            replace_durably(Path(draft.name), path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


def replace_durably(draft: Path, path: Path) -> None:
    """Flush a file to disk and rename it to `path`, in the same file system."""
    sync_path(draft)
    draft.replace(path)
    sync_folder(path.parent)


def link_durably(draft: Path, path: Path) -> None:
    """Flush a file to disk and link it to `path`, which must not exist, in the same file system."""
    sync_path(draft)
    os.link(draft, path)
    sync_folder(path.parent)


def drop_drafts(path: Path) -> None:
    """Remove what writers of `path` that were killed have left; no other may be writing now."""
    if path.parent.is_dir():
        # Not by a pattern, in which parts of the name might mean something.
        for draft in path.parent.iterdir():
            if draft.name.startswith(f".{path.name}."):
                draft.unlink()
