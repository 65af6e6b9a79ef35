"""`auctune replay`: verify a period of a service's log, or replay it under other mechanisms."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.options import DATA
from auctune.cli._support.outputs import check_output_paths
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auctune.cli.replays.replay import Replay
    from auctune.service.config.models import ServiceConfig
    from auctune.service.storage import EventLog
    from auctune.service.zones.period import Period
    from auctune.sim.comparison import Contender


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
    exit code 1 if one is not. Under others a table shows their outcome on the same bids and lost
    nodes, jobs and market, or threads.
    """
    contenders = _contenders(mechanism, compare)
    settings = _settings(database, config)
    place = database or (None if settings is None else settings.database) or data

    from auctune.cli.replays.kinds import open_replay
    from auctune.cli.replays.replay import Logged
    from auctune.service.storage import EventLog, open_readonly
    from auctune.service.storage.engine import FILE_NAME
    from auctune.sim.atomic_file import AtomicFiles
    from auctune.sim.result_file import write_json

    check_output_paths((config, data / FILE_NAME), (out,))
    with AtomicFiles([] if out is None else [out]) as files, open_readonly(place) as reader:
        period = _period(EventLog(reader), zone, begin, end)
        entries = {} if settings is None else {entry.name: entry for entry in settings.zones}
        replayed = open_replay(Logged(period, reader, entries.get(period.zone)))
        _check(contenders, replayed)
        if contenders:
            figures, is_same = replayed.compare_with(contenders, as_json=as_json), True
        else:
            figures, is_same = replayed.decide_again(as_json=as_json)
        for file in files:
            write_json(figures, file)
    if not is_same:
        raise typer.Exit(1)


def _settings(database: str | None, config: Path | None) -> "ServiceConfig | None":
    if config is None:
        return None
    if database is not None:
        raise InputError("--database", "is given with --config", "one of the two")

    from auctune.service.config.models import read_config

    return read_config(config)


def _contenders(mechanism: str | None, compare: str | None) -> "Sequence[Contender]":
    if mechanism is not None and compare is not None:
        raise InputError("--mechanism", "is given with --compare", "one of the two")
    wanted = mechanism if compare is None else compare
    if wanted is None:
        return ()

    from auctune.sim.comparison import parse_contenders

    option = "--mechanism" if compare is None else "--compare"
    try:
        found = parse_contenders(wanted)
    except InputError as error:
        raise InputError(option, error.found, error.expected) from None
    if compare is None and len(found) > 1:
        raise InputError(option, f"{wanted!r}", "one mechanism, or several by --compare")
    return found


def _check(contenders: "Sequence[Contender]", replayed: "Replay") -> None:
    """Refuse unknown mechanisms and settings before any mechanism runs."""
    for contender in contenders:
        try:
            replayed.check(contender)
        except InputError as error:
            place = f"{contender.label}: {error.place}"
            raise InputError(place, error.found, error.expected) from None


def _period(log: "EventLog", zone: str | None, begin: str | None, end: str | None) -> "Period":
    from auctune.service.jobs.timestamps import parse_moment
    from auctune.service.zones.period import Period

    names, now = log.zones(), time.time()
    if not names:
        raise InputError("database", "has no zone", "that of a service that has run")
    first = None if begin is None else parse_moment(begin, now, "--from")
    last = None if end is None else parse_moment(end, now, "--to")
    if first is not None and last is not None and last <= first:
        raise InputError("--to", f"{end!r} is not after --from", "a later time")
    try:
        period = Period(zone or names[0], log, first, last)
    except InputError as error:
        raise InputError("--zone", error.found, error.expected) from None
    if period.last_slot is not None and period.last_slot < period.first_slot:
        raise InputError("--to", f"{end!r}: no slot begins before it", "a later time")
    if period.newest_slot < period.first_slot:
        raise InputError("--from", f"{begin!r}: nothing is on record since then", "an earlier time")
    return period
