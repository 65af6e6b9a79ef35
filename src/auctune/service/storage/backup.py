"""A copy of an SQLite database while a service writes to it, and a database from such a copy.

SQLite's online backup (https://www.sqlite.org/backup.html) copies pages within one read
transaction here, so that the copy is the database as it was at one commit. It is checked, flushed
and only then given its name.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from auctune.domain import InputError

_BUSY_SECONDS = 10.0


def copy_database(source: Path, target: Path) -> None:
    """Copy a database to a new file, whole or not at all.

    Args:
        source: of SQLite; a service may be writing to it.
        target: in a folder that is there.

    Raises:
        InputError: if there is no source, it is no database, or there is a target already.
    """
    if not source.is_file():
        raise InputError(str(source), "is not there", "an SQLite database")
    if target.exists():
        raise InputError(str(target), "is there already", "the name of a new file")
    draft = target.with_name(f"{target.name}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        _copy(source, draft)
        _flush(draft)
        # Fails where somebody made one meanwhile, and replaces nothing.
        os.link(draft, target)
        _flush(target.parent)
    except FileExistsError:
        raise InputError(str(target), "is there already", "the name of a new file") from None
    except OSError as error:
        raise InputError(
            str(target), f"cannot be written ({error.strerror})", "a new file in a folder"
        ) from None
    except sqlite3.Error as error:
        raise InputError(str(source), f"cannot be copied ({error})", "an SQLite database") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _copy(source: Path, draft: Path) -> None:
    address = f"{source.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(draft)) as written,
    ):
        read.backup(written)
        # The copy is a file alone: it has no log of writes beside it.
        written.execute("PRAGMA journal_mode=DELETE").fetchall()
        (found,) = written.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
