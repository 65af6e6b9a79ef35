"""`auctune jobs`: one's own jobs, newest first."""

import time
from typing import TYPE_CHECKING

import typer

from auctune.cli.listing import All, Limit, newest
from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json
from auctune.domain.job_words import reason_words

if TYPE_CHECKING:
    from auctune.client import Job


def jobs(
    limit: Limit = 20,
    everything: All = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """List one's own jobs, newest first."""
    with Finder(url, api_key, data)() as client:
        found = newest(client.jobs(), limit, everything=everything)
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
    now = time.time()
    for job in found:
        market = job.market
        # What ended otherwise was not done by any time.
        done = job.record["finished_at"] if job.status == "succeeded" else job.ends_at or None
        table.add_row(
            job.id,
            job.name,
            market["zone"],
            job.state,
            _most(job),
            job.paid or "-",
            clock(market["deadline"]),
            f"{clock(done)} (overdue)" if job.is_overdue(now) else clock(done),
            job.loss or "-",
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
    return reason_words(str(reason))
