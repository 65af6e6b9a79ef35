"""`auctune files`: one's own data sets, and what came out of jobs."""

from typing import Annotated

import typer

from auctune.cli.listing import All, Limit, newest
from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json

files = typer.Typer(help="Files of one's own: list, delete.", rich_markup_mode=None)

FileId = Annotated[
    str, typer.Argument(metavar="FILE", help="The file's id, file-...", show_default=False)
]


@files.command("list")
def list_files(
    limit: Limit = 20,
    everything: All = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """List one's own files, newest first."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    with Finder(url, api_key, data)() as client:
        found = newest(client.files(), limit, everything=everything)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no files yet")
        return
    table = table_of("file", "name", "purpose", "bytes", "made", "state", right=("bytes",))
    for file in found:
        made, size = clock(file["created_at"]), str(file["bytes"])
        table.add_row(file["id"], file["filename"], file["purpose"], size, made, file["status"])
    show(table, spare=("state", "made", "purpose"))


@files.command("delete")
def delete_file(file: FileId, url: Url = None, api_key: ApiKey = None, data: Data = DATA) -> None:
    """Delete a file, for good. One that an open job needs stays."""
    with Finder(url, api_key, data)() as client:
        client.delete_file(file)
    typer.echo(f"{file} is deleted")
