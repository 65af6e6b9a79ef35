"""`auctune db`: the database of a service."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.cli.service_options import DATA
from auctune.domain.errors import InputError

db = typer.Typer(
    help="The service's database: upgrade, backup, restore.",
    rich_markup_mode=None,
)

Config = Annotated[
    Path | None,
    typer.Option(help="auctune.toml, whose database is meant; none: that in --data."),
]
Data = Annotated[Path, typer.Option(help="Folder of the database.")]


@db.callback()
def _db() -> None:
    """The service's database."""


@db.command("upgrade")
def upgrade(config: Config = None, data: Data = DATA) -> None:
    """Bring the database of an earlier release to this one. The service must not run meanwhile."""
    from auctune.service.store import reading
    from auctune.service.store import upgrade as upgrade_store
    from auctune.service.store.engine import FILE_NAME
    from auctune.service.store.event_log import EventLog
    from auctune.service.zones.restart import opening_of

    url = _url(config)
    if url is None and not (data / FILE_NAME).is_file():
        raise InputError(str(data), f"has no {FILE_NAME}", "the data folder of a service")
    upgrade_store(url or data)
    _bind(url or data, data)
    with reading(url or data) as reader:
        log = EventLog(reader)
        for zone in log.zones():
            # `serve` refuses the log of another version: no migration rewrites events.
            opening_of(zone, log)
    typer.echo("the database is up to date")


@db.command("backup")
def backup(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="The copy, a new file.", show_default=False)
    ],
    config: Config = None,
    data: Data = DATA,
) -> None:
    """Copy the database as it is at one moment. The service may run. SQLite only."""
    from auctune.service.store.backup import copy_database

    copy_database(_file(config, data), out)
    typer.echo(f"{out}: {out.stat().st_size:,} bytes, a whole database")


@db.command("restore")
def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="FILE", help="A copy, by backup.", show_default=False)
    ],
    config: Config = None,
    data: Data = DATA,
) -> None:
    """Put a copy in the place of a database that is gone. No database is written over."""
    from auctune.service.store import reading
    from auctune.service.store.backup import copy_database
    from auctune.service.store.identity import check_same

    target = _file(config, data)
    if target.exists():
        raise InputError(str(target), "is there already", "no database there: move it away first")
    for beside in (f"{target}-wal", f"{target}-shm"):
        if Path(beside).exists():
            raise InputError(beside, "is left of another database", "no such file there")
    with reading(f"sqlite:///{backup.resolve()}") as reader:
        with reader.connect() as connection:
            check_same(connection, data, str(backup))
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_database(backup, target)
    # This also checks that a service can own it and write ahead.
    _bind(f"sqlite:///{target.resolve()}", data)
    typer.echo(f"{target} is as it was in {backup}; the service goes on from there")


def _bind(where: "str | Path", data: Path) -> None:
    """Have a data folder belong to a database."""
    from auctune.service.store import open_store
    from auctune.service.store.identity import check_same, write_id

    with open_store(where) as store:
        check_same(store.writer, data, store.place)
        data.mkdir(parents=True, exist_ok=True)
        write_id(store.writer, data)


def _url(config: Path | None) -> str | None:
    if config is None:
        return None

    from auctune.service.config.models import read_config

    return read_config(config).database


def _file(config: Path | None, data: Path) -> Path:
    """The file of an SQLite database.

    Raises:
        InputError: if it is another one, which has tools of its own.
    """
    from auctune.service.store.engine import FILE_NAME, sqlite_file

    url = _url(config)
    if url is None:
        return data / FILE_NAME
    found = sqlite_file(url)
    if found is None:
        raise InputError(
            f"{config}: database", "is not SQLite's", "pg_dump and pg_restore for PostgreSQL"
        )
    return found
