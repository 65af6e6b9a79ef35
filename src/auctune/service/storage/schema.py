"""Which migrations a database has gone through, and bringing it to the newest.

Migrations are Alembic's, in the package beside this module, and need no file of settings. All that
a database lacks is done in one transaction: it is at its old revision or at the newest.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from auctune.domain import InputError

_MIGRATIONS = Path(__file__).with_name("migrations")


def ensure_schema(connection: Connection, place: str) -> None:
    """Make the tables in an empty database; any other one must have the newest already.

    Raises:
        InputError: if it is of another release, or holds something else.
    """
    found = revision(connection, place)
    if found is None:
        migrate(connection, place)
    else:
        _check_newest(found, place)


def check_schema(connection: Connection, place: str) -> None:
    """That a database has the newest tables already, where nothing may be written.

    Raises:
        InputError: if it is empty, of another release, or holds something else.
    """
    found = revision(connection, place)
    if found is None:
        raise InputError(place, "is empty", "the database of a service")
    _check_newest(found, place)


def _check_newest(found: str, place: str) -> None:
    if found != _head():
        known = {script.revision for script in _scripts().walk_revisions()}
        expected = (
            f"{_head()}, made by: auctune db upgrade"
            if found in known
            else f"at most {_head()}: a newer release of auctune wrote this database"
        )
        raise InputError(place, f"has tables of revision {found}", expected)


def migrate(connection: Connection, place: str) -> None:
    """Bring a database to the newest revision, whatever it is at.

    Raises:
        InputError: if it is of a newer release, or holds something else.
    """
    found = revision(connection, place)
    known = {script.revision for script in _scripts().walk_revisions()}
    if found is not None and found not in known:
        raise InputError(place, f"has tables of revision {found}", f"at most {_head()}")
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def revision(connection: Connection, place: str) -> str | None:
    """The revision of a database; none for an empty one.

    Raises:
        InputError: if it holds tables that are not auctune's.
    """
    with connection.begin():
        heads = MigrationContext.configure(connection).get_current_heads()
        tables = inspect(connection).get_table_names()
    if not heads and set(tables) - {"alembic_version"}:
        found = f"holds tables that are not auctune's: {', '.join(sorted(tables)[:3])}"
        raise InputError(place, found, "an empty database, or one of auctune")
    return heads[0] if heads else None


def _head() -> str:
    head = _scripts().get_current_head()
    assert head is not None
    return head


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    # A per cent sign would be read as the begin of a variable.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
