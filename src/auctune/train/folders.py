"""Folders that appear whole or not at all, whatever moment the process or the machine dies at.

A folder is filled under a hidden name beside its place, forced to disk and renamed: `rename` is
the one step of a POSIX file system that is atomic. Where a folder already stands in the place, it
steps aside under a hidden name of its own first, and is found there if the process dies in between.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".tmp-"
ASIDE = ".old-"


@contextmanager
def unfinished_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place` to fill and put there; what is left of it at the end goes."""
    place.parent.mkdir(parents=True, exist_ok=True)
    folder = place.parent / f"{UNFINISHED}{place.name}-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(folder: Path, place: Path) -> None:
    """Force `folder` to disk and rename it to `place`; what stood there is dropped afterwards."""
    sync_tree(folder)
    aside = aside_of(place)
    if place.exists():
        drop_folder(aside)
        place.rename(aside)
    folder.rename(place)
    sync_folder(place.parent)
    drop_folder(aside)


def put_if_absent(folder: Path, place: Path) -> None:
    """Force `folder` to disk and rename it to `place`, unless a whole one got there first."""
    sync_tree(folder)
    try:
        folder.rename(place)
    except OSError as error:
        # A folder is never renamed onto one that is not empty.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    sync_folder(place.parent)


def aside_of(place: Path) -> Path:
    """Where the former content of `place` waits while it is being replaced."""
    return place.parent / f"{ASIDE}{place.name}"


def drop_folder(folder: Path) -> None:
    """Remove a folder so that no half of it is ever seen under its own name."""
    if folder.exists():
        doomed = folder.parent / f"{UNFINISHED}drop-{secrets.token_hex(4)}"
        folder.rename(doomed)
        shutil.rmtree(doomed)


def drop_unfinished(parent: Path, name: str = "") -> None:
    """Remove what writers that died have left in `parent`, of all places or those called so.

    No other may be writing there now.
    """
    for folder in parent.glob(f"{UNFINISHED}{name}*"):
        shutil.rmtree(folder)


def sync_tree(folder: Path) -> None:
    """Force all files of a folder, and the folders themselves, to disk."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_path(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk, so that a rename in it survives a power cut."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_path(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
