"""Files and folders that appear complete or not at all, whenever the process or machine dies.

Each is written under a hidden name beside its place, flushed to disk and renamed: `rename` is the
one step of a POSIX file system that is atomic. A folder that is replaced is first renamed to a
backup, where it is found if the process dies between the two renames.
"""

import contextlib
import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TextIO

from auctune.domain import InputError

STAGING = ".tmp-"
BACKUP = ".old-"
_RANDOM_BYTES = 4


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a temporary file, flush it to disk and rename it to `path`."""
    with atomic_file(path) as file:
        file.write(data)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that is flushed and renamed to `path` at the end of the block."""
    # Unlike that of `tempfile`, its mode is that of any new file: the process's umask decides.
    with _temp_path(path).open("xb") as file:
        try:
            yield file
            file.flush()
            replace_durably(Path(file.name), path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def replace_durably(source: Path, path: Path) -> None:
    """Flush a file to disk and rename it to `path`, in the same file system."""
    sync_path(source)
    source.replace(path)
    sync_folder(path.parent)


def link_durably(source: Path, path: Path) -> None:
    """Flush a file to disk and link it to `path`, which must not exist, in the same file system."""
    sync_path(source)
    os.link(source, path)
    sync_folder(path.parent)


def clean_temp_files(path: Path) -> None:
    """Remove temporary files of `path` whose writers were killed; no other may be writing now."""
    if path.parent.is_dir():
        # Not by a pattern, in which parts of the name might have a meaning.
        for file in path.parent.iterdir():
            if file.name.startswith(f".{path.name}."):
                file.unlink()


class AtomicFiles:
    """Context manager that opens one text file for each path and commits all of them together.

    Only when all are written are they flushed to disk and renamed; an error before that leaves no
    trace.

    Args:
        paths: where the files go; none may be given twice.

    Raises:
        InputError: on entry, naming the path that is given twice, is not a regular file, or lies
            in a folder that is missing or cannot be written.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._given = tuple(paths)
        self._paths: list[Path] = []
        for path in paths:
            resolved = _check_output(path)
            if resolved in self._paths:
                raise InputError(str(path), "is given twice", "a file for each output")
            self._paths.append(resolved)
        self._files: list[tuple[Path, TextIO]] = []

    def __enter__(self) -> list[TextIO]:
        try:
            for path, given in zip(self._paths, self._given, strict=True):
                self._files.append(_open_temp_file(path, given))
        except BaseException:
            self._clean()
            raise
        return [file for _, file in self._files]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._clean()

    def _commit(self) -> None:
        for _, file in self._files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for path, (temp, _) in zip(self._paths, self._files, strict=True):
            temp.replace(path)

    def _clean(self) -> None:
        for temp, file in self._files:
            # Closing flushes, which fails again where the disk is full.
            with contextlib.suppress(OSError):
                file.close()
            temp.unlink(missing_ok=True)


@contextmanager
def staging_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder beside `place` to fill and commit; it is removed at the end otherwise."""
    place.parent.mkdir(parents=True, exist_ok=True)
    folder = _staging_path(place.parent, place.name)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def commit_folder(folder: Path, place: Path) -> None:
    """Flush `folder` to disk and rename it to `place`; a folder that was there is then removed."""
    sync_tree(folder)
    backup = backup_path(place)
    if place.exists():
        remove_folder(backup)
        place.rename(backup)
    folder.rename(place)
    sync_folder(place.parent)
    remove_folder(backup)


def commit_if_absent(folder: Path, place: Path) -> None:
    """Flush `folder` to disk and rename it to `place`, unless a complete one is there already."""
    sync_tree(folder)
    try:
        folder.rename(place)
    except OSError as error:
        # A folder is never renamed onto one that is not empty.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    sync_folder(place.parent)


def backup_path(place: Path) -> Path:
    """Return where the former content of `place` is kept while it is being replaced."""
    return place.parent / f"{BACKUP}{place.name}"


def remove_folder(folder: Path) -> None:
    """Remove a folder so that no part of it is ever seen under its own name."""
    if folder.exists():
        doomed = _staging_path(folder.parent, folder.name.removeprefix(BACKUP))
        folder.rename(doomed)
        shutil.rmtree(doomed)


def _staging_path(parent: Path, name: str) -> Path:
    return parent / f"{STAGING}{name}-{secrets.token_hex(_RANDOM_BYTES)}"


def clean_staging(parent: Path, name: str | None = None) -> None:
    """Remove staging folders in `parent` whose writers were killed; no other may be writing now.

    Args:
        parent: folder of the places.
        name: of one place; `None`: of all.
    """
    # Not those of `name-2`, which another process may be writing.
    own = "*" if name is None else f"{glob.escape(name)}-{'?' * 2 * _RANDOM_BYTES}"
    for folder in parent.glob(f"{STAGING}{own}"):
        shutil.rmtree(folder)


def sync_tree(folder: Path) -> None:
    """Flush all files of a folder, and the folders themselves, to disk."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_path(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk, so that a rename in it survives a power cut."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_path(path: Path) -> None:
    """Flush a file, or a folder's list of names, to disk."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temp_path(path: Path) -> Path:
    return path.parent / f".{path.name}.{secrets.token_hex(4)}"


def _check_output(path: Path) -> Path:
    # Renaming would put a file in a link's or a device's place.
    resolved = path.resolve()
    if resolved.exists() and not resolved.is_file():
        raise InputError(str(path), "is no regular file", "a file to write")
    return resolved


def _open_temp_file(path: Path, given: Path) -> tuple[Path, TextIO]:
    temp = _temp_path(path)
    try:
        return temp, temp.open("x", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(
            str(given), f"cannot be written ({error.strerror})", "a file in a folder that is there"
        ) from None
