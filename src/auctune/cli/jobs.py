"""`auctune jobs`: one's own jobs, newest first."""

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json

if TYPE_CHECKING:
    from auctune.client import Job


def jobs(
    limit: Annotated[int, typer.Option(min=1, help="So many at most.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """List one's own jobs, newest first."""
    with Finder(url, api_key, data)() as client:
        found = list(itertools.islice(client.jobs(), limit))
    if as_json:
        print_json([job.record for job in found])
    elif not found:
        typer.echo("no jobs yet")
    else:
        _show(found)


def _show(found: "list[Job]") -> None:
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    table = table_of(
        "job", "name", "state", "bid", "paid", "deadline", "done by", "loss",
        right=("bid", "paid", "loss"),
    )  # fmt: skip
    for job in found:
        market, (_, loss) = job.market, job.losses
        # What ended otherwise was not done by any time.
        done = job.record["finished_at"] if job.status == "succeeded" else job.ends_at or None
        table.add_row(
            job.id,
            job.name,
            market["state"],
            market["bid"] or "-",
            market["payment"] or "-",
            clock(market["deadline"]),
            clock(done),
            "-" if loss is None else f"{loss:.3f}",
        )
    show(table, spare=("deadline", "bid", "loss"))
