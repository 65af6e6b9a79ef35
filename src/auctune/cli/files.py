"""`auctune files`: a user's data sets and results."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import Limit, ShowAll, option_groups, take_newest
from auctune.cli._support.service import ServiceJsonOptions, ServiceOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError

_SPAN = re.compile(r"([1-9][0-9]{0,5})([hd])")
_SECONDS = {"h": 3600, "d": 86_400}

files = typer.Typer(help="Your files: list, upload, delete.", rich_markup_mode=None)


@files.command("list")
@option_groups
def list_files(*, limit: Limit = 20, all_: ShowAll = False, service: ServiceJsonOptions) -> None:
    """List your files, newest first."""
    with service.connect() as client:
        newest = take_newest(client.files(), limit, all_=all_)
    service.output(newest, _print_files)


@files.command("upload")
@option_groups
def upload_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Data set.", show_default=False)],
    *,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN", help="Delete it after this span, such as 12h or 7d. Default: keep it."
        ),
    ] = None,
    service: ServiceOptions,
) -> None:
    """Upload a data set as a new file and print its id."""
    seconds = None if expires is None else _seconds(expires)
    with service.connect() as client:
        try:
            uploaded = client.upload_new(file, seconds)
        except OSError as error:
            reason = f"cannot be read ({error.strerror or 'unknown error'})"
            raise InputError(str(file), reason, "a data set") from None
    typer.echo(uploaded)


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
    names = ("file", "name", "purpose", "bytes", "created", "expires", "status")
    table = make_table(*names, right=("bytes",))
    for file in files:
        created, expires = format_time(file["created_at"]), format_time(file.get("expires_at"))
        size, purpose = str(file["bytes"]), file["purpose"]
        table.add_row(file["id"], file["filename"], purpose, size, created, expires, file["status"])
    print_table(table, optional=("status", "created", "purpose", "expires"))


def _seconds(span: str) -> int:
    """Return the seconds of a span such as 7d."""
    found = _SPAN.fullmatch(span)
    if found is None:
        raise InputError("--expires", repr(span), "a span in hours or days, such as 12h or 7d")
    return int(found[1]) * _SECONDS[found[2]]
