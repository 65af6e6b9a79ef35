"""`auctune replay`: verify a range of a service's log, or replay it under other mechanisms."""

import time
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import DATA, print_json
from auctune.cli._support.outputs import check_output_paths
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auctune.replay.compare import AnyReplay, Comparison, LogRange
    from auctune.replay.verify import VerificationResult
    from auctune.service.config.models import ServiceConfig
    from auctune.service.storage import EventLog
    from auctune.sim.comparison import Entry

Figures = dict[str, Any]

# The rest are in the figures.
_MAX_SHOWN = 20
_NOUNS = {"price_updates": "price updates", "plans": "new plans"}


def replay(
    data: Annotated[Path, typer.Option(help="Data folder of the service.")] = DATA,
    config: Annotated[
        Path | None,
        typer.Option(
            help="auctune.toml that names the database and zones. Default: those in --data."
        ),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="URL of the database. Default: as in --config, or in --data.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="The zone. Default: the first one opened.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="Slots from this time on, or -7d. Default: all."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="Slots before this time, or -1h. Default: now.")
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...]", help="Another mechanism. Default: the recorded one."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...],...",
            help="Compare several mechanisms, instead of --mechanism.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this file (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Verify a service's log, or replay it under other mechanisms.

    The log is only read; the service may run.

    Under the recorded mechanism each decision, price update, new plan and charge must be identical:
    exit code 1 if one is not. For others, a table shows their outcome on the same jobs.
    """
    entries = _entries(mechanism, compare)
    settings = _settings(database, config)
    place = database or (None if settings is None else settings.database) or data

    from auctune.files.atomic import AtomicFiles
    from auctune.files.json_file import write_json
    from auctune.replay.compare import ReplayInput
    from auctune.replay.kinds import open_replay
    from auctune.service.storage import EventLog, Snapshots, open_readonly
    from auctune.service.storage.engine import FILE_NAME

    check_output_paths((config, data / FILE_NAME), (out,))
    with AtomicFiles([] if out is None else [out]) as files, open_readonly(place) as reader:
        log = _log_range(EventLog(reader), zone, begin, end)
        configs = {} if settings is None else {config.name: config for config in settings.zones}
        source = ReplayInput(log, Snapshots(reader), configs.get(log.zone))
        replayed = open_replay(source)
        _check(entries, replayed)
        if log.kind == "auction":
            _warn_compiling()
        with ProgressBars() as bars:
            if entries:
                is_identical = True
                compared = replayed.compare(entries, bars.counter)
                figures = _comparison_figures(replayed, compared)
            else:
                verified = replayed.verify(bars.counter)
                is_identical = verified.is_identical
                figures = _verification_figures(replayed, verified)
        if as_json:
            print_json(figures)
        elif entries:
            _print_comparison(replayed, compared)
        else:
            _print_verification(replayed, verified)
        for file in files:
            write_json(figures, file)
    if not is_identical:
        raise typer.Exit(1)


def _settings(database: str | None, config: Path | None) -> "ServiceConfig | None":
    if config is None:
        return None
    if database is not None:
        raise InputError("--database", "is given with --config", "one of the two")

    from auctune.service.config.models import read_config

    return read_config(config)


def _entries(mechanism: str | None, compare: str | None) -> "Sequence[Entry]":
    if mechanism is not None and compare is not None:
        raise InputError("--mechanism", "is given with --compare", "one of the two")
    given = mechanism if compare is None else compare
    if given is None:
        return ()

    from auctune.sim.comparison import parse_entries

    option = "--mechanism" if compare is None else "--compare"
    try:
        entries = parse_entries(given)
    except InputError as error:
        raise InputError(option, error.found, error.expected) from None
    if compare is None and len(entries) > 1:
        raise InputError(option, f"{given!r}", "one mechanism, or several by --compare")
    return entries


def _check(entries: "Sequence[Entry]", replayed: "AnyReplay") -> None:
    """Refuse unknown mechanisms and settings before any mechanism runs."""
    for entry in entries:
        try:
            replayed.check(entry)
        except InputError as error:
            place = f"{entry.label}: {error.place}"
            raise InputError(place, error.found, error.expected) from None


def _log_range(log: "EventLog", zone: str | None, begin: str | None, end: str | None) -> "LogRange":
    from auctune.replay.compare import LogRange
    from auctune.service.jobs.terms import parse_moment

    names, now = log.zones(), time.time()
    if not names:
        raise InputError("database", "has no zone", "the database of a service that has run")
    first = None if begin is None else parse_moment(begin, now, "--from")
    last = None if end is None else parse_moment(end, now, "--to")
    if first is not None and last is not None and last <= first:
        raise InputError("--to", f"{end!r} is not after --from", "a later time")
    try:
        found = LogRange(zone or names[0], log, first, last)
    except InputError as error:
        raise InputError("--zone", error.found, error.expected) from None
    if found.last_slot is not None and found.last_slot < found.first_slot:
        raise InputError("--to", f"{end!r}: no slot begins before it", "a later time")
    if found.newest_slot < found.first_slot:
        raise InputError("--from", f"{begin!r}: the log has no events after it", "an earlier time")
    return found


def _warn_compiling() -> None:
    from auctune.auction.search.schedule_search import find_best

    warn_compiling(find_best, "the auction's")


def _range_figures(log: "LogRange") -> Figures:
    last = log.newest_slot
    return {
        "zone": log.zone,
        "kind": log.kind,
        "first_slot": log.first_slot,
        "last_slot": last,
        "begin": log.clock.slot_start(log.first_slot),
        "end": log.clock.slot_end(last),
    }


def _verification_figures(replayed: "AnyReplay", verified: "VerificationResult") -> Figures:
    differences = [asdict(one) for one in verified.differences]
    figures = {
        **_range_figures(replayed.log),
        "mechanism": replayed.basis,
        "identical": verified.is_identical,
        **{f"num_{name}": count for name, count in verified.counts.items()},
        "num_differences": len(differences),
    }
    if replayed.log.kind == "auction":
        return figures | {"first_difference": differences[0] if differences else None}
    return figures | {"differences": differences}


def _comparison_figures(replayed: "AnyReplay", compared: "Comparison[Any]") -> Figures:
    skipped = replayed.num_skipped
    return {
        **_range_figures(replayed.log),
        **({} if skipped is None else {"num_left_out": skipped}),
        "recorded": {"mechanism": compared.mechanism, **_outcome_figures(compared.recorded)},
        "mechanisms": [
            {
                "name": entry.label,
                "mechanism": entry.mechanism,
                "settings": dict(entry.settings),
                **_outcome_figures(outcome),
            }
            for entry, outcome in compared.others
        ],
    }


def _outcome_figures(outcome: Any) -> Figures:
    return {
        name: str(value) if isinstance(value, Decimal) else value
        for name, value in asdict(outcome).items()
    }


def _print_range(log: "LogRange") -> None:
    first, last = log.first_slot, log.newest_slot
    begin, end = format_time(log.clock.slot_start(first)), format_time(log.clock.slot_end(last))
    typer.echo(f"zone {log.zone}, {begin} to {end} (slots {first} to {last})")


def _print_verification(replayed: "AnyReplay", verified: "VerificationResult") -> None:
    _print_range(replayed.log)
    *counts, last = (
        _count(count, _NOUNS.get(name, name)) for name, count in verified.counts.items()
    )
    counted = f"{', '.join(counts)} and {last}"
    if verified.is_identical:
        typer.echo(f"identical under {replayed.basis}: {counted}")
        return
    differences = verified.differences
    total = _count(len(differences), "differences")
    typer.echo(f"verified {counted} under {replayed.basis}: {total}")
    for one in differences[:_MAX_SHOWN]:
        typer.echo(f"  {one.name}: {one.what}: recorded {one.recorded}, found {one.found}")
    if len(differences) > _MAX_SHOWN:
        typer.echo("  ...")


def _print_comparison(replayed: "AnyReplay", compared: "Comparison[Any]") -> None:
    _print_range(replayed.log)
    labels = ["as recorded", *(entry.label for entry, _ in compared.others)]
    heads = [label.replace(":", "\n") for label in labels]
    outcomes = [compared.recorded, *(outcome for _, outcome in compared.others)]
    table = make_table("", *heads, right=tuple(heads))
    for header, name, spec in replayed.rows:
        table.add_row(header, *(format(getattr(outcome, name), spec) for outcome in outcomes))
    print_table(table)
    skipped = replayed.num_skipped
    if skipped is not None:
        why = f" ({replayed.skipped})" if skipped else ""
        typer.echo(f"left out: {skipped:,} jobs{why}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun.removesuffix('s') if number == 1 else noun}"
