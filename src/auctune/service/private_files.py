"""Files and folders that only the account of the service may read or write."""

import os
import stat
from pathlib import Path

from auctune.domain import InputError

_FOLDERS = ("files", "work", "logs", "trash", "profiles")
_OTHERS = 0o077


def take_data_folder(folder: Path) -> int:
    """Make the data folder, or take one that is there, for this account alone.

    All files that this process and its children create from now on are private. If the folder was
    open to other accounts, the service's files in it are closed to them too.

    Returns:
        How many files and folders were open to others and are closed now.

    Raises:
        InputError: if the folder cannot be made, or is not this account's own.
    """
    os.umask(_OTHERS)
    expected = "a folder of the service's own, which this account may write"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise InputError(str(folder), f"cannot be made ({error.strerror})", expected) from None
    if found.st_mode & stat.S_ISVTX:
        raise InputError(str(folder), "is a folder for files of all users", expected)
    if found.st_mode & _OTHERS == 0:
        return 0
    try:
        folder.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except OSError as error:
        raise InputError(
            str(folder), f"is open to others and cannot be closed ({error.strerror})", expected
        ) from None
    return 1 + sum(_close(folder / name) for name in _FOLDERS)


def _close(folder: Path) -> int:
    """Close a folder and all below it; return how many entries were open. Follow no links."""
    count = 0
    for root, _, names in os.walk(folder):
        for path in (Path(root), *(Path(root, name) for name in names)):
            try:
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode) and mode & _OTHERS:
                    path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
                    count += 1
            except FileNotFoundError:
                continue
    return count


def read_secret(path: Path, num_bytes: int) -> bytes | None:
    """Read a secret that `write_private` wrote in hexadecimal; None: there is no such file.

    Raises:
        InputError: if it is not so many bytes.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", "a secret") from None
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != num_bytes:
        raise InputError(
            str(path),
            f"holds {len(text)} bytes that are no secret of the service",
            f"{2 * num_bytes} hexadecimal digits: restore the file from a backup, or delete it and "
            "a new secret is made at the next start",
        )
    return secret


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone; it appears whole or not at all, also across a crash.

    Raises:
        OSError: if it cannot be written; what was there before is still there then.
    """
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
