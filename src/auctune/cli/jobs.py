"""`auctune jobs`, `cancel`, `pause` and `resume`: list and change a user's jobs."""

import time

import typer

from auctune.cli._support.job_text import format_time, state_text
from auctune.cli._support.options import Limit, ShowAll, option_groups, print_json, take_newest
from auctune.cli._support.service import JobId, ServiceJsonOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.client import Job
from auctune.domain.job_words import reason_words


@option_groups
def jobs(*, limit: Limit = 20, all_: ShowAll = False, service: ServiceJsonOptions) -> None:
    """List your jobs, newest first."""
    with service.connect() as client:
        newest = take_newest(client.jobs(), limit, all_=all_)
    if service.as_json:
        print_json([job.record for job in newest])
    elif not newest:
        typer.echo("no jobs yet")
    else:
        _print_jobs(newest)


@option_groups
def cancel(job: JobId, service: ServiceJsonOptions) -> None:
    """Cancel a job; nothing is refunded.

    Its future slots return to the market.
    """
    _act(job, "cancel", service)


@option_groups
def pause(job: JobId, service: ServiceJsonOptions) -> None:
    """Pause a job: release its future slots.

    Slots are planned again when it is resumed.
    """
    _act(job, "pause", service)


@option_groups
def resume(job: JobId, service: ServiceJsonOptions) -> None:
    """Resume a paused job in new slots, free of charge.

    The slots are before its deadline.
    """
    _act(job, "resume", service)


def _act(job: str, action: str, service: ServiceJsonOptions) -> None:
    with service.connect() as client:
        changed = client.job_action(job, action)
    if service.as_json:
        print_json(changed.record)
    else:
        typer.echo(f"{changed.name}: {state_text(changed)}")


def _print_jobs(jobs: list[Job]) -> None:
    table = make_table(
        "job", "name", "zone", "state", "bid", "paid", "deadline", "done by", "loss", "why",
        right=("bid", "paid", "loss"),
    )  # fmt: skip
    now = time.time()
    for job in jobs:
        market = job.market
        # Jobs that failed or were cancelled have no finish.
        done = job.record["finished_at"] if job.status == "succeeded" else job.ends_at or None
        done_by = format_time(done) + (" (overdue)" if job.is_overdue(now) else "")
        table.add_row(
            job.id,
            job.name,
            market["zone"],
            job.state,
            market["bid"] or "-" if job.metered is None else f"cap {job.metered['max_cost']}",
            job.cost or "-",
            format_time(market["deadline"]),
            done_by,
            job.loss or "-",
            _reason(job),
        )
    print_table(table, optional=("why", "zone", "deadline", "bid", "loss"))


def _reason(job: Job) -> str:
    """Return a short reason why a job was rejected or failed."""
    error = job.record["error"] or {}
    return reason_words(str(job.market["reason"] or error.get("code") or "-"))
