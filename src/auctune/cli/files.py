"""`auctune files`: a user's data sets and results."""

from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import Limit, ShowAll, option_groups, take_newest
from auctune.cli._support.service import ServiceJsonOptions, ServiceOptions
from auctune.cli._support.tables import make_table, print_table

files = typer.Typer(help="Your files: list, delete.", rich_markup_mode=None)


@files.command("list")
@option_groups
def list_files(*, limit: Limit = 20, all_: ShowAll = False, service: ServiceJsonOptions) -> None:
    """List your files, newest first."""
    with service.connect() as client:
        newest = take_newest(client.files(), limit, all_=all_)
    service.output(newest, _print_files)


@files.command("delete")
@option_groups
def delete_file(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Id of the file, file-...", show_default=False)
    ],
    service: ServiceOptions,
) -> None:
    """Delete a file permanently, unless an open job needs it."""
    with service.connect() as client:
        client.delete_file(file)
    typer.echo(f"deleted {file}")


def _print_files(files: list[dict[str, Any]]) -> None:
    if not files:
        typer.echo("no files yet")
        return
    table = make_table("file", "name", "purpose", "bytes", "created", "status", right=("bytes",))
    for file in files:
        created, size = format_time(file["created_at"]), str(file["bytes"])
        table.add_row(file["id"], file["filename"], file["purpose"], size, created, file["status"])
    print_table(table, optional=("status", "created", "purpose"))
