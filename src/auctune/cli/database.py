"""`auctune db`: the database of a service."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.cli.service_options import DATA

db = typer.Typer(help="The service's database: upgrade.", rich_markup_mode=None)


@db.callback()
def _db() -> None:
    """The service's database."""


@db.command("upgrade")
def upgrade(
    config: Annotated[
        Path | None,
        typer.Option(help="auctune.toml, whose database is meant; none: that in --data."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder of the database.")] = DATA,
) -> None:
    """Bring the database of an earlier release to this one. The service must not run meanwhile."""
    from auctune.domain.errors import InputError
    from auctune.service.settings.service_file import read_service_file
    from auctune.service.store import upgrade as upgrade_store
    from auctune.service.store.engine import FILE_NAME

    url = None if config is None else read_service_file(config).database
    if url is None and not (data / FILE_NAME).is_file():
        raise InputError(str(data), f"has no {FILE_NAME}", "the data folder of a service")
    upgrade_store(url or data)
    typer.echo("the database is up to date")
