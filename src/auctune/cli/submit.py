"""`auctune submit`: submit a job, accept a quote, or submit the bids of a market file."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from auctune.cli._support.job_text import decision_text, format_time
from auctune.cli._support.options import (
    given_options,
    option_groups,
    print_json,
    refuse_combined,
)
from auctune.cli._support.service import EXIT_REJECTED, ServiceJsonOptions
from auctune.cli.quote import check_spec, errors_name_options, print_quote, use_option_names
from auctune.cli.watch import watch_jobs
from auctune.client import Client, Job, JobSpec, JobTerms, ServiceError, UnreachableError
from auctune.client.spec import TRAINING_SETTINGS
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.engine.market.market_file import BidEntry, MarketFile

# Options that can be combined with --quote, and with --market.
_WITH_QUOTE = ("--bid", "--max-cost", "--name")
_WITH_MARKET = ("--model", "--zone")
# A market file's slot 0 is the present slot if at least this share of it remains.
_MIN_REMAINING = 0.5
# Seconds added to a deadline, so that rounding never moves it before the end of its slot.
_DEADLINE_SLACK = 0.001
_PROCESSING_SECONDS = 60.0
# Longer waits for a bid's slot are announced.
_MAX_SILENT_SECONDS = 10.0


@option_groups
def submit(
    terms: JobTerms,
    spec: JobSpec,
    *,
    quote: Annotated[str | None, typer.Option(metavar="ID", help="Accept this quote.")] = None,
    line: Annotated[
        int | None, typer.Option(help="Line of the quote; not for a quote with an estimate.")
    ] = None,
    market: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Submit all bids of this market file.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the jobs until they have ended.")
    ] = False,
    service: ServiceJsonOptions,
) -> None:
    """Submit a fine-tuning job, or all jobs of a market file.

    Zones with binding prices need --bid and zones that meter usage --max-cost, all a --deadline,
    where the service has no default. The decision is immediate and final.

    With --market each bid is submitted in its slot of arrival, counted from now.
    """
    options = given_options(spec, terms)
    num_sent = 1
    if quote is not None or line is not None:
        if quote is None:
            raise InputError("--line", "needs --quote", "both")
        others = {name: value for name, value in options.items() if name not in _WITH_QUOTE}
        refuse_combined("--quote", others | {"--market": market}, "a job as it was quoted")
        jobs = [_accept(quote, line, spec.name, terms, service)]
    elif market is not None:
        others = {name: value for name, value in options.items() if name not in _WITH_MARKET}
        refuse_combined("--market", others, "one of the two")
        jobs, num_sent = _submit_market(market, spec.model, terms.zone, service)
    else:
        jobs = [_submit_job(spec, terms, service)]
    if market is None:
        _print_decision(jobs[0], as_json=service.as_json)
    is_good = _finish(jobs, service, watch=watch and not terms.what_if)
    if not is_good or len(jobs) < num_sent:
        raise typer.Exit(EXIT_REJECTED)


def _submit_job(spec: JobSpec, terms: JobTerms, service: ServiceJsonOptions) -> Job:
    checked = check_spec(spec)
    with errors_name_options(), service.connect() as client:
        job = client.submit(client.prepare(checked, terms), terms)
        return _await_decision(job, client, quiet=service.as_json)


def _await_decision(job: Job, client: Client, *, quiet: bool) -> Job:
    """Return the job once it is decided, which may have to wait for the check of its data."""
    if job.is_decided or job.market["state"] == "what_if":
        return job
    if not quiet:
        typer.echo(f"{job.id}: checking the data ...", err=True)
    try:
        for _ in client.events(job.id, after=0):
            job = client.job(job.id)
            if job.is_decided:
                break
    except UnreachableError as error:
        # The job was submitted, and can be watched.
        typer.echo(f"auctune: {error}", err=True)
    return job


def _accept(
    quote: str, line: int | None, name: str | None, terms: JobTerms, service: ServiceJsonOptions
) -> Job:
    """Accept a quote; if it is no longer available, print the new one."""
    try:
        with errors_name_options(), service.connect() as client:
            return client.accept(quote, line, terms.bid, name, terms.max_cost)
    except ServiceError as error:
        if error.code != "quote_changed":
            raise
        typer.echo(f"auctune: {use_option_names(str(error))}; nothing was charged", err=True)
        service.output(error.extra, lambda extra: print_quote(extra["quote"], service.command_line))
        raise typer.Exit(EXIT_REJECTED) from None


def _submit_market(
    path: Path, model: str | None, zone: str | None, service: ServiceJsonOptions
) -> tuple[list[Job], int]:
    """Return the jobs of valid bids, and the number of all bids."""
    from auctune.engine.market.market_file import read_market

    market = read_market(path)
    jobs = []
    with service.connect() as client:
        for name, answer in _submit_bids(market, path.parent, client, model, zone):
            if isinstance(answer, InputError):
                typer.echo(f"{name} is not valid: {answer}", err=True)
            else:
                _print_decision(answer, as_json=service.as_json)
                jobs.append(answer)
    return jobs, len(market.bids)


def _submit_bids(
    market: "MarketFile", folder: Path, client: Client, model: str | None, zone: str | None
) -> Iterator[tuple[str, Job | InputError]]:
    """Submit bids in order of arrival; yield their ids, and the jobs as decided.

    Slot 0 of a market file is the service's next slot, because a service sells from the next slot
    on: a bid that arrives in slot a is submitted a slots from now, and its deadline d is the end of
    the service's slot now + 1 + d. The file's base model and nodes are ignored. An invalid bid does
    not stop the others.
    """
    record = client.zone(zone, model)
    zone_id = str(record["id"])
    terms = JobTerms(zone=zone_id)
    specs = {
        bid.id: client.prepare(job_spec(bid, folder, model or record["model"]), JobTerms())
        for bid in market.bids
    }
    files = [name for spec in specs.values() for name in (spec.training_file, spec.validation_file)]
    _await_processing([name for name in files if name is not None], client)
    start = _first_slot(client, zone_id)
    for bid in sorted(market.bids, key=lambda bid: bid.arrival):
        now = _await_slot(client, zone_id, start + bid.arrival, bid.id)
        num_slots = start + 1 + bid.deadline - now["slot"]
        end = now["slot_ends_at"] + num_slots * now["slot_seconds"] + _DEADLINE_SLACK
        deadline = datetime.fromtimestamp(end, UTC).isoformat()
        try:
            yield (
                bid.id,
                client.submit(specs[bid.id], replace(terms, bid=str(bid.bid), deadline=deadline)),
            )
        except InputError as error:
            yield bid.id, error


def job_spec(bid: "BidEntry", folder: Path, model: str) -> JobSpec:
    """Return the job of a market file's bid, as it is submitted to a service.

    Raises:
        InputError: if it starts from an adapter: a service has only those that it trained.
    """
    if bid.start_from is not None:
        expected = "no start_from; auctune submit --model ft:... starts from a job's adapter"
        raise InputError(f"{bid.id}: start_from", "is a folder of this machine", expected)
    settings = {name: getattr(bid, name) for name in TRAINING_SETTINGS}
    settings["target_modules"] = list(settings["target_modules"])
    if settings["method"] == "supervised":
        # A setting of the other methods.
        del settings["beta"]
    validation = None if bid.validation is None else str(folder / bid.validation)
    return JobSpec(
        str(folder / bid.data),
        name=bid.id,
        validation_file=validation,
        model=model,
        settings=settings,
        repair=bid.repair,
    )


def _await_processing(files: list[str], client: Client) -> None:
    """Wait until the service has checked uploads, so that their bids are decided at once."""
    end = time.monotonic() + _PROCESSING_SECONDS
    for file in files:
        while not client.is_processed(file) and time.monotonic() < end:
            time.sleep(0.1)


def _first_slot(client: Client, zone: str) -> int:
    """Return the slot of arrival 0: the present one, or the next if half of it is over."""
    now = client.zone(zone)
    has_time = now["slot_ends_at"] - time.time() > _MIN_REMAINING * now["slot_seconds"]
    return int(now["slot"]) + (0 if has_time else 1)


def _await_slot(client: Client, zone: str, slot: int, bid: str) -> dict[str, Any]:
    """Return the zone's record once a slot has begun."""
    now = client.zone(zone)
    if (seconds := _seconds_to(slot, now)) > _MAX_SILENT_SECONDS:
        typer.echo(f"{bid} arrives in {seconds:.0f} s", err=True)
    while now["slot"] < slot:
        # Clocks may differ, so use the service's.
        time.sleep(min(max(_seconds_to(slot, now), 0.05), now["slot_seconds"]))
        now = client.zone(zone)
    return now


def _seconds_to(slot: int, now: Mapping[str, Any]) -> float:
    between = (slot - now["slot"] - 1) * now["slot_seconds"]
    return float(now["slot_ends_at"] + between - time.time())


def _print_decision(job: Job, *, as_json: bool) -> None:
    if as_json:
        return
    console = Console(highlight=False)
    line = Text(f"{format_time(time.time())}  ").append_text(decision_text(job))
    console.print(line, soft_wrap=True)
    for note in job.market["notes"]:
        console.print(Text(f"  note: {note}"), soft_wrap=True)


def _finish(jobs: list[Job], service: ServiceJsonOptions, *, watch: bool) -> bool:
    """Watch the jobs or print how to; return whether all were admitted and watched ones done."""
    if service.as_json:
        records = [job.record for job in jobs]
        print_json(records[0] if len(records) == 1 else records)
    unfinished = {
        job.id: job for job in jobs if not job.is_over and job.market["state"] != "what_if"
    }
    is_good = all(job.is_admitted or not job.is_decided for job in jobs)
    if watch and unfinished:
        is_good = watch_jobs(unfinished, service) and is_good
    elif unfinished and not service.as_json:
        typer.echo(f"watch with: auctune watch {' '.join(unfinished)}{service.command_line}")
    return is_good
