"""Files and folders that only the account of the service may read or write."""

import os
import secrets
import stat
from pathlib import Path

from auctune.domain import InputError
from auctune.files.atomic import atomic_file, clean_temp_files

_FOLDERS = ("files", "work", "logs", "trash", "profiles", "wandb")
_OTHERS = 0o077
KEY_BYTES = 32


def take_data_folder(folder: Path) -> None:
    """Create the data folder; change nothing in one that exists.

    All files that this process and its children create from now on are private.

    Raises:
        InputError: if it cannot be created, or is one of others: a folder of all users of this
            machine, or that of a run.
    """
    expected = "a folder for this service alone, writable by this account"
    if run_at(folder) is not None:
        raise InputError(str(folder), "is the folder of a run", expected)
    os.umask(_OTHERS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise InputError(str(folder), f"cannot be created ({error.strerror})", expected) from None
    if found.st_mode & stat.S_ISVTX:
        raise InputError(str(folder), "is shared by all users of this machine", expected)


def run_at(folder: Path) -> Path | None:
    """Return the folder of a run that has no service, if this is one or its state; else `None`."""
    for run in (folder, folder.parent):
        state = run / "state"
        if folder in (run, state) and (state / "inputs").is_dir():
            return run
    return None


def make_private(folder: Path) -> int:
    """Close a data folder, and the service's files in it, to other accounts.

    Returns:
        The number of files and folders that were open; 0 if the folder itself was not.

    Raises:
        InputError: if this account may not.
    """
    mode = folder.stat().st_mode
    if mode & _OTHERS == 0:
        return 0
    try:
        folder.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except OSError as error:
        found = f"is open to others and cannot be closed ({error.strerror})"
        raise InputError(str(folder), found, "a folder that this account owns") from None
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


def load_key(path: Path) -> bytes:
    """Return the random key in a file, which is created at the first call."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        key = secrets.token_bytes(KEY_BYTES)
        write_private(path, key.hex() + "\n")
        return key
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", "a key") from None
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InputError(
            str(path),
            f"holds {len(text)} bytes that are not a key of the service",
            f"{2 * KEY_BYTES} hexadecimal digits: restore the file from a backup, or delete it and "
            "the next start creates a new key",
        )
    return key


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone; it appears whole or not at all, also across a crash."""
    clean_temp_files(path)
    with atomic_file(path) as draft:
        os.fchmod(draft.fileno(), 0o600)
        draft.write(text.encode())
