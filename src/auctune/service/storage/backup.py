"""Copies of an SQLite database, for backup and restore, also while a service writes to it.

SQLite's online backup (https://www.sqlite.org/backup.html) copies pages within one read
transaction, so the copy is the database as of one commit. It is checked and flushed before it gets
its name.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from auctune.atomic_files import link_durably
from auctune.domain import InputError

_BUSY_SECONDS = 10.0


def copy_database(source: Path, target: Path) -> None:
    """Copy a database, to which a service may be writing, to a new file: whole or not at all."""
    if not source.is_file():
        raise InputError(str(source), "does not exist", "an SQLite database")
    exists = InputError(str(target), "already exists", "the name of a new file")
    if target.exists():
        raise exists
    draft = target.with_name(f"{target.name}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        _copy(source, draft)
        # Unlike a rename it replaces no file that was created in the meantime.
        link_durably(draft, target)
    except FileExistsError:
        raise exists from None
    except OSError as error:
        raise InputError(
            str(target), f"cannot be written ({error.strerror})", "a new file in a folder"
        ) from None
    except sqlite3.Error as error:
        raise InputError(str(source), f"cannot be copied ({error})", "an SQLite database") from None
    finally:
        draft.unlink(missing_ok=True)


def _copy(source: Path, draft: Path) -> None:
    address = f"{source.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(draft)) as written,
    ):
        read.backup(written)
        # The copy is a single file, without a write-ahead log beside it.
        written.execute("PRAGMA journal_mode=DELETE").fetchall()
        (found,) = written.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
