"""Check that a data folder and a database belong together.

A database gets a random id from its migrations, and its data folder repeats the id in a file. The
folder holds users' files, and only the database knows them: a database that is missing, empty or
another one must not be mistaken for one that has deleted all files.
"""

from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, func, select

from auctune.domain import InputError
from auctune.service.private_files import write_private
from auctune.service.storage.tables import events, files, meta

ID_FILE = "database-id"
ID = "database_id"
"""Name of the id in the table `meta`."""

_CONTENTS = ("files/file-*", "work/*/ftjob-*")


def check_unused(folder: Path, place: str) -> None:
    """Check that a data folder may get a new database, which errors name `place`."""
    known = _read(folder)
    found = [str(path.name) for pattern in _CONTENTS for path in islice(folder.glob(pattern), 1)]
    if known is None and not found:
        return
    what = f"belongs to database {known}" if known is not None else f"holds {', '.join(found)}"
    raise InputError(
        str(folder),
        f"{what}, and {place} is missing or empty",
        "its own database: restore it (auctune db restore FILE), or correct `database` in the "
        "settings or --data. For a new database use an empty folder. Nothing was changed",
    )


def bind(connection: Connection, folder: Path, place: str) -> bool:
    """Check that a data folder and a database belong together; bind them at the first start.

    The folder is locked by this process. Return whether they were bound before.
    """
    own, known = database_id(connection), _read(folder)
    if known == own:
        _check_files(connection, folder / "files")
        return True
    if known is not None:
        raise InputError(
            str(folder),
            f"belongs to database {known}, and {place} is {own}",
            "its own database: correct `database` in the settings or --data. Nothing was changed",
        )
    # Events are written only after this step: a database with events has another data folder.
    with connection.begin():
        is_used = connection.execute(select(events.c.seq).limit(1)).first() is not None
    if is_used:
        raise InputError(
            str(folder),
            f"is not the data folder of {place}: it has no {ID_FILE}",
            f"--data with its folder; if that is lost, or this is a copy of it, write {own} "
            f"to {folder / ID_FILE}. Nothing was changed",
        )
    check_unused(folder, place)
    write_id(connection, folder)
    return False


def write_id(connection: Connection, folder: Path) -> None:
    """Bind a folder to a database."""
    write_private(folder / ID_FILE, database_id(connection) + "\n")


def check_same(connection: Connection, folder: Path, place: str) -> None:
    """Check that a folder belongs to this database or to none."""
    own, known = database_id(connection), _read(folder)
    if known not in (None, own):
        raise InputError(
            str(folder), f"belongs to database {known}, and {place} is {own}", "a backup of its own"
        )


def database_id(connection: Connection) -> str:
    """Return the id of a database that has its tables."""
    with connection.begin():
        found: str = connection.execute(select(meta.c.value).where(meta.c.name == ID)).scalar_one()
    return found


def _check_files(connection: Connection, folder: Path) -> None:
    """Refuse a missing folder, in which files are listed: its disk may not be mounted.

    A service that started without it would fail all jobs that need one of the files.
    """
    query = select(func.count()).select_from(files).where(files.c.deleted_at.is_(None))
    with connection.begin():
        count = connection.execute(query).scalar_one()
    if count and not folder.is_dir():
        raise InputError(
            str(folder),
            f"does not exist, and the database lists {count:,} file{'s'[: count > 1]} in it",
            "the folder as it was: restore it from a backup, or correct --data. To start without "
            "these files, create the folder: jobs that need them fail. Nothing was changed",
        )


def _read(folder: Path) -> str | None:
    path = folder / ID_FILE
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})", "the id of a database") from None
