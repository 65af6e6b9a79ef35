"""`auctune submit`: a bid, or those of a market file."""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.service_options import (
    DATA,
    REFUSED,
    ApiKey,
    AsJson,
    Data,
    Finder,
    Url,
    print_json,
)
from auctune.cli.terms_options import Bid, MaxCost, Risk, TargetLoss, Value, Wishes, base_of
from auctune.cli.work_options import (
    AnyZone,
    Model,
    Repair,
    Settings,
    Sites,
    Validation,
    Wanted,
    wanted,
)
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from auctune.client import Client, Job


_WITH_QUOTE = ("--quote", "--line", "--bid", "--max-cost", "--name")


def submit(
    training_file: Annotated[
        str | None,
        typer.Argument(
            help="The data set: a file, or the id of an upload.",
            show_default=False,
        ),
    ] = None,
    bid: Bid = None,
    deadline: Annotated[
        str | None, typer.Option(help="When it must be done: a time, or a span such as +2h.")
    ] = None,
    value: Value = None,
    max_cost: MaxCost = None,
    target_loss: TargetLoss = None,
    risk: Risk = None,
    site: Sites = None,
    name: Annotated[str | None, typer.Option(help="Its name; none: that of the file.")] = None,
    validation: Validation = None,
    model: Model = None,
    zone: AnyZone = None,
    settings: Settings = None,
    repair: Repair = False,
    quote: Annotated[
        str | None, typer.Option(help="Id of a quote that is accepted; it says the rest.")
    ] = None,
    line: Annotated[
        int | None, typer.Option(help="Which line of --quote; none: it has an estimate.")
    ] = None,
    what_if: Annotated[bool, typer.Option(help="Only ask what would be decided.")] = False,
    market: Annotated[
        Path | None, typer.Option(help="A market file, all of whose bids are sent.")
    ] = None,
    watch: Annotated[bool, typer.Option(help="Then show the jobs until they are over.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Ask for a job, or for all jobs of a market file. The answer stands at once.

    Where prices are binding a job is bid for; where it is metered, --max-cost says the most that
    it may cost.

    Bids of a market file are sent each in its slot of arrival, counted from now, with its deadline
    on the service's clock.
    """
    connect = Finder(url, api_key, data)
    wishes = Wishes(bid, deadline, value, max_cost, target_loss, risk, what_if)
    one = {
        "TRAINING_FILE": training_file,
        "--bid": bid,
        "--deadline": deadline,
        "--value": value,
        "--max-cost": max_cost,
        "--target-loss": target_loss,
        "--risk": risk,
        "--site": site,
        "--name": name,
        "--validation": validation,
        "--set": settings,
        "--repair": repair,
        "--quote": quote,
        "--line": line,
        "--what-if": what_if,
    }
    if quote is not None or line is not None:
        if quote is None:
            raise InputError("--line", "stands without --quote", "both")
        _refuse_with_quote({**one, "--model": model, "--zone": zone, "--market": market})
        shown = _Shown(quote, line, bid, name, max_cost)
        jobs, num_sent = [_accept(shown, connect, as_json=as_json)], 1
        _show(jobs[0], as_json=as_json)
    elif market is not None:
        _refuse_with_market(one)
        jobs, num_sent = _submit_market(market, connect, model, zone, as_json=as_json)
    else:
        work = wanted(training_file, validation, settings, site, name, repair=repair)
        jobs, num_sent = [_ask(work, wishes, connect, model, zone, as_json=as_json)], 1
        _show(jobs[0], as_json=as_json)
    is_good = _end(jobs, connect, watch=watch and not what_if, as_json=as_json)
    if not is_good or len(jobs) < num_sent:
        raise typer.Exit(REFUSED)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is accepted of what was shown: as of `Client.accept`."""

    quote: str
    line: int | None
    bid: str | None
    name: str | None
    max_cost: str | None


def _ask(
    work: Wanted,
    wishes: Wishes,
    connect: Finder,
    model: str | None,
    zone: str | None,
    *,
    as_json: bool,
) -> "Job":
    """The job of the options, as it was decided."""
    wishes.check()
    with connect() as client:
        base = base_of(client, model, zone, has_sites=bool(work.sites))
        terms = wishes.terms(base, zone)
        return _decided(client.submit(work.upload(client), terms), client, as_json=as_json)


def _refuse_with_quote(given: "Mapping[str, object]") -> None:
    for option, value in given.items():
        if value and option not in _WITH_QUOTE:
            raise InputError(option, "is given with --quote", "none: it is as it was quoted")


def _decided(job: "Job", client: "Client", *, as_json: bool) -> "Job":
    """A job as it was decided, once its data were looked at."""
    if job.is_decided or job.market["state"] == "what_if":
        return job

    from auctune.client import UnreachableError

    if not as_json:
        typer.echo(f"{job.id}: checking the data ...", err=True)
    try:
        for _ in client.events(job.id, after=0):
            job = client.job(job.id)
            if job.is_decided:
                break
    except UnreachableError as error:
        # The job stands, and may be watched.
        typer.echo(f"auctune: {error}", err=True)
    return job


def _accept(shown: _Shown, connect: Finder, *, as_json: bool) -> "Job":
    """The job of what was shown; where that is not to be had any more, what is in its place."""
    from auctune.cli.menu import show_quote
    from auctune.client import ServiceError

    try:
        with connect() as client:
            return client.accept(*astuple(shown))
    except ServiceError as error:
        if error.code != "quote_changed":
            raise
        typer.echo(f"auctune: {error}; nothing was charged", err=True)
        if as_json:
            print_json(error.beside)
        else:
            show_quote(error.beside["quote"], connect.options)
        raise typer.Exit(REFUSED) from None


def _refuse_with_market(given: "Mapping[str, object]") -> None:
    for option, value in given.items():
        if value:
            raise InputError(option, "is given with --market", "one of the two")


def _submit_market(
    market: Path,
    connect: Finder,
    model: str | None,
    zone: str | None,
    *,
    as_json: bool,
) -> "tuple[list[Job], int]":
    """Jobs of the bids that were taken, and how many bids were sent."""
    from auctune.cli.market_bids import market_bids
    from auctune.run.market.market_file import read_market

    read = read_market(market)
    jobs = []
    with connect() as client:
        for name, answer in market_bids(read, market.parent, client, model, zone):
            if isinstance(answer, InputError):
                typer.echo(f"{name} was not taken: {answer}", err=True)
            else:
                _show(answer, as_json=as_json)
                jobs.append(answer)
    return jobs, len(read.bids)


def _show(job: "Job", *, as_json: bool) -> None:
    import time

    from rich.console import Console
    from rich.text import Text

    from auctune.cli.job_lines import clock, decision_line

    if as_json:
        return
    line = Text(f"{clock(time.time())}  ").append_text(decision_line(job))
    console = Console(highlight=False)
    console.print(line, soft_wrap=True)
    for note in job.market["notes"]:
        console.print(Text(f"  note: {note}"), soft_wrap=True)


def _end(jobs: "list[Job]", connect: Finder, *, watch: bool, as_json: bool) -> bool:
    """Say how to go on, or watch; whether all was admitted, and what was watched done."""
    if as_json:
        records = [job.record for job in jobs]
        print_json(records[0] if len(records) == 1 else records)
    under_way = {
        job.id: job for job in jobs if not job.is_over and job.market["state"] != "what_if"
    }
    is_good = all(job.is_admitted or not job.is_decided for job in jobs)
    if watch and under_way:
        from auctune.cli.watched import watch_jobs

        is_good = watch_jobs(under_way, connect) and is_good
    elif under_way and not as_json:
        typer.echo(f"watch with: auctune watch {' '.join(under_way)}{connect.options}")
    return is_good
