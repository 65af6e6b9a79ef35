"""`auctune db`: upgrade, back up and restore the database of a service."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import DATA
from auctune.domain.errors import InputError
from auctune.service.storage import open_readonly, open_store
from auctune.service.storage import upgrade as upgrade_store
from auctune.service.storage.engine import FILE_NAME, copy_database, sqlite_file
from auctune.service.storage.identity import check_same, write_id

db = typer.Typer(
    help="The service's database: upgrade, backup, restore.",
    rich_markup_mode=None,
)

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="auctune.toml with the database's URL. Default: the one in --data."
    ),
]
Data = Annotated[Path, typer.Option(metavar="DIR", help="Data folder of the service.")]


@db.command("upgrade")
def upgrade(config: Config = None, data: Data = DATA) -> None:
    """Migrate an earlier release's database; stop the service first."""
    url = _url(config)
    if url is None and not (data / FILE_NAME).is_file():
        raise InputError(str(data), f"has no {FILE_NAME}", "the data folder of a service")
    upgrade_store(url or data)
    _bind(url or data, data)
    typer.echo("the database is up to date")


@db.command("backup")
def backup(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to create.", show_default=False)
    ],
    config: Config = None,
    data: Data = DATA,
) -> None:
    """Back up the database (SQLite), also while the service runs."""
    copy_database(_file(config, data), out)
    typer.echo(f"{out}: {out.stat().st_size:,} bytes")


@db.command("restore")
def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="FILE", help="File written by backup.", show_default=False)
    ],
    config: Config = None,
    data: Data = DATA,
) -> None:
    """Restore the database from a backup; never overwrites one."""
    target = _file(config, data)
    if target.exists():
        raise InputError(str(target), "already exists", "no database there; move it away first")
    for beside in (f"{target}-wal", f"{target}-shm"):
        if Path(beside).exists():
            raise InputError(beside, "belongs to another database", "no such file")
    with open_readonly(f"sqlite:///{backup.resolve()}", is_newest=False) as reader:
        with reader.connect() as connection:
            check_same(connection, data, str(backup))
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_database(backup, target)
    # A copy made before an upgrade is of an earlier release.
    upgrade_store(f"sqlite:///{target.resolve()}")
    # Opening the database checks that a service can own it, with a write-ahead log.
    _bind(f"sqlite:///{target.resolve()}", data)
    typer.echo(f"restored {target} from {backup}")


def _bind(where: str | Path, data: Path) -> None:
    """Record in a data folder which database it belongs to."""
    with open_store(where) as store:
        check_same(store.writer, data, store.label)
        data.mkdir(parents=True, exist_ok=True)
        write_id(store.writer, data)


def _url(config: Path | None) -> str | None:
    if config is None:
        return None
    # The settings take a second to import.
    from auctune.service.config.models import read_config

    return read_config(config).database


def _file(config: Path | None, data: Path) -> Path:
    """Return the file of an SQLite database; refuse PostgreSQL."""
    url = _url(config)
    if url is None:
        return data / FILE_NAME
    file = sqlite_file(url)
    if file is None:
        raise InputError(
            f"{config}: database",
            "is not an SQLite database",
            "pg_dump and pg_restore for PostgreSQL",
        )
    return file
