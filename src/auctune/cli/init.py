"""`auctune init`: a commented auctune.toml."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.domain.errors import InputError


def init(
    out: Annotated[Path, typer.Option(help="The file, new.")] = Path("auctune.toml"),
) -> None:
    """Write an auctune.toml with all settings and what they mean."""
    from auctune.service.config.generator import template

    try:
        with out.open("x") as file:
            file.write(template())
    except FileExistsError:
        raise InputError(str(out), "is there already", "the name of a new file") from None
    typer.echo(f"{out} is written; start the service with: auctune serve --config {out}")
