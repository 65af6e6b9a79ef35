"""Check the revision of a database, and migrate it to the newest one.

The migrations are Alembic's, in the package beside this module, without a configuration file. All
missing ones run in one transaction: a database is at its old revision or at the newest.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from auctune.domain import InputError
from auctune.service.storage.log_version import check_log

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOGS = {"0002": " (log of version 11 or before)"}


def ensure_schema(connection: Connection, place: str) -> None:
    """Create the tables in an empty database; any other one must be at the newest revision.

    Its log must be of a version that can be read.
    """
    found = revision(connection, place)
    if found is None:
        migrate(connection, place)
    else:
        _check_current(connection, found, place)


def check_schema(connection: Connection, place: str, *, is_newest: bool = True) -> None:
    """Check that a database is at the newest revision, or at one that is known; write nothing."""
    found = revision(connection, place)
    if found is None:
        raise InputError(place, "is empty", "the database of a service")
    if is_newest or found == _check_known(found, place):
        _check_current(connection, found, place)


def migrate(connection: Connection, place: str) -> None:
    """Migrate a database from any revision to the newest."""
    found = revision(connection, place)
    if found is not None:
        _check_known(found, place)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    check_log(connection, place)


def revision(connection: Connection, place: str) -> str | None:
    """Return the revision of a database, or None for an empty one."""
    with connection.begin():
        heads = MigrationContext.configure(connection).get_current_heads()
        tables = inspect(connection).get_table_names()
    if not heads and set(tables) - {"alembic_version"}:
        found = f"holds tables that are not auctune's: {', '.join(sorted(tables)[:3])}"
        raise InputError(place, found, "an empty database, or one of auctune")
    return heads[0] if heads else None


def _check_current(connection: Connection, found: str, place: str) -> None:
    """Check that the revision that was found is the newest, and that the log can be read."""
    newest = _check_known(found, place)
    if found != newest:
        expected = f"{newest}; run: auctune db upgrade"
        log = _LOGS.get(found, "")
        raise InputError(place, f"has tables of revision {found}{log}", expected)
    check_log(connection, place)


def _check_known(found: str, place: str) -> str:
    """Return the newest revision; refuse one that this release does not have."""
    scripts = ScriptDirectory.from_config(_config())
    newest = scripts.get_current_head()
    assert newest is not None
    if found not in {script.revision for script in scripts.walk_revisions()}:
        expected = f"at most {newest}: a newer release of auctune wrote this database"
        raise InputError(place, f"has tables of revision {found}", expected)
    return newest


def _config() -> Config:
    config = Config()
    # A per cent sign would begin a variable.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
