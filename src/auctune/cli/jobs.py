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
        "job", "name", "zone", "state", "bid", "paid", "deadline", "done by", "loss", "why",
        right=("bid", "paid", "loss"),
    )  # fmt: skip
    for job in found:
        market, (_, loss) = job.market, job.losses
        # What ended otherwise was not done by any time.
        done = job.record["finished_at"] if job.status == "succeeded" else job.ends_at or None
        table.add_row(
            job.id,
            job.name,
            market["zone"],
            market["state"],
            _most(job),
            job.paid or "-",
            clock(market["deadline"]),
            clock(done),
            "-" if loss is None else f"{loss:.3f}",
            _why(job),
        )
    show(table, spare=("why", "zone", "deadline", "bid", "loss"))


def _most(job: "Job") -> str:
    """What its owner would pay: the bid, or the cap of what is metered."""
    if job.metered is not None:
        return f"cap {job.metered['max_cost']}"
    return job.market["bid"] or "-"


def _why(job: "Job") -> str:
    """Why it was rejected, or failed, in a word or two."""
    error = job.record["error"] or {}
    reason = job.market["reason"] or error.get("code") or "-"
    return str(reason).replace("_", " ")
