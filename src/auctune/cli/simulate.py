"""`auctune simulate`: its options, and their checks."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import Charts, parse_key_values, refuse_combined
from auctune.cli._support.outputs import check_output_paths, files_in
from auctune.cli.simulation import (
    OutputPaths,
    Simulation,
    check_stream,
    is_streamed,
    read_history,
    require_learning_mechanism,
    run_simulation,
    run_streamed,
)
from auctune.cli.workload import STREAM_SUFFIX, Arrivals, make_market
from auctune.domain import Task
from auctune.domain.errors import InputError
from auctune.sim.bound import bound_kinds
from auctune.sim.comparison import Entry, build, parse_entries
from auctune.sim.instance import Instance
from auctune.sim.instance_file import read_instance
from auctune.sim.outages import read_outages
from auctune.sim.stream.tasks import read_market, stream_tasks


def simulate(
    report: Annotated[Path, typer.Option(metavar="FILE", help="Write the figures (JSON).")],
    instance: Annotated[
        Path | None,
        typer.Argument(
            metavar="INSTANCE",
            help="The market: an instance (JSON), or its tasks (parquet). Default: synthetic.",
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The mechanism: pdftsp, titan, eft, ntm, or one of an installed package.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a mechanism parameter; repeatable."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...],...",
            help="Compare several mechanisms, instead of --mechanism and --set.",
        ),
    ] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Write the decisions (JSON lines, or *.parquet); with --compare, to a folder.",
        ),
    ] = None,
    bound: Annotated[
        str, typer.Option(metavar="BOUND", help="Upper bound on welfare: none, lp or milp.")
    ] = "none",
    charts: Charts = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Learn from the bids of an earlier day (instance); repeatable."
        ),
    ] = None,
    arrivals: Arrivals = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", metavar="KEY=VALUE", help="Set a parameter of the market; repeatable."
        ),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Outages of nodes (JSON).")
    ] = None,
) -> None:
    """Simulate a market under one mechanism or several.

    Nothing is trained. Writes the decisions and a report, all files or none.
    """
    entries = _entries(mechanism, settings or [], compare)
    if decisions is None and compare is None:
        raise InputError("--decisions", "is missing", "a file for the decisions")
    if bound not in bound_kinds():
        kinds = ", ".join(bound_kinds())
        raise InputError("--bound", f"{bound!r} is not offered", f"one of {kinds}")
    read = (instance, _cluster_file(instance), arrivals, events, *(history or ()))
    check_output_paths((*read, *files_in(workload or ())), (decisions, report, charts))
    if history:
        require_learning_mechanism(entries)
    streamed = is_streamed(instance, decisions)
    if streamed:
        others = {"--compare": compare, "--charts": charts, "--bound": bound != "none"}
        refuse_combined("a stream", others, "an instance file, because it needs all bids at once")
        check_stream(instance, decisions)
        market, bids = _open_stream(instance, arrivals, workload or [])
    else:
        market = _read_market(instance, arrivals, workload or [])
    outages = () if events is None else read_outages(events, market.cluster)
    _check_entries(entries, market, compared=compare is not None)
    earlier = read_history(history or [], market.cluster)
    simulation = Simulation(market, entries, outages, earlier, bound, compare is not None)
    if streamed:
        assert decisions is not None
        run_streamed(simulation, bids, decisions, report)
    else:
        run_simulation(simulation, OutputPaths(report, decisions, charts))


def _entries(mechanism: str | None, settings: list[str], compare: str | None) -> list[Entry]:
    parameters = parse_key_values(settings)
    if compare is None:
        if mechanism is None:
            raise InputError("--mechanism", "is missing", "a mechanism, or several by --compare")
        return [Entry(mechanism, mechanism, parameters)]
    refuse_combined("--compare", {"--mechanism": mechanism, "--set": settings}, "one of the two")
    try:
        return parse_entries(compare)
    except InputError as error:
        raise error.at("--compare") from None


def _check_entries(entries: Sequence[Entry], market: Instance, *, compared: bool) -> None:
    """Refuse unknown mechanisms and parameters before any mechanism runs."""
    for entry in entries:
        try:
            build(entry, market)
        except InputError as error:
            is_name = error.place == "mechanism"
            if compared:
                place = f"--compare {entry.label}" + ("" if is_name else f": {error.place}")
            else:
                place = "--mechanism" if is_name else f"--set {error.place}"
            raise error.at(place) from None


def _read_market(instance: Path | None, arrivals: Path | None, workload: list[str]) -> Instance:
    if instance is None:
        if arrivals is None and not workload:
            raise InputError("INSTANCE", "is missing", "a file, or --arrivals or --workload")
        return make_market(arrivals, workload, "--workload")
    others = {"--arrivals": arrivals, "--workload": workload}
    refuse_combined("INSTANCE", others, "one of the two")
    return read_instance(instance)


def _open_stream(
    instance: Path | None, arrivals: Path | None, workload: list[str]
) -> tuple[Instance, Iterator[Task]]:
    """Return a market without its tasks, and the tasks in order of arrival."""
    if instance is not None and instance.suffix == STREAM_SUFFIX and not (arrivals or workload):
        market = read_market(instance)
        return market, stream_tasks(instance, market.cluster)
    market = _read_market(instance, arrivals, workload)
    return market, iter(market.in_order())


def _cluster_file(instance: Path | None) -> Path | None:
    """Return the file with the cluster of streamed tasks."""
    if instance is None or instance.suffix != STREAM_SUFFIX:
        return None
    return instance.with_suffix(".json")
