"""`auctune simulate`: a market through one mechanism or several; decisions and figures out."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.options import parse_key_values
from auctune.cli._support.outputs import check_output_paths, files_in
from auctune.cli.history import check_learners, read_history
from auctune.cli.stream import check_stream, open_market, simulate_stream, streams
from auctune.cli.workload import SUFFIX, Arrivals, make_market
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.domain import Task
    from auctune.sim.comparison import Contender
    from auctune.sim.instance import Instance


def simulate(
    report: Annotated[Path, typer.Option(help="Where the figures go (JSON).")],
    instance: Annotated[
        Path | None,
        typer.Argument(
            help="The market: an instance file (JSON), or its tasks (parquet); none: it is made up."
        ),
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="pdftsp, titan, eft, ntm, or one of an installed package.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the mechanism; repeatable."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...],...",
            help="Several mechanisms side by side, in place of --mechanism and --set.",
        ),
    ] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="Where the decisions go: JSON lines, or *.parquet, a folder of parts; "
            "with --compare, a folder, or none."
        ),
    ] = None,
    bound: Annotated[str, typer.Option(help="Upper bound on welfare: none, lp or milp.")] = "none",
    charts: Annotated[
        Path | None, typer.Option(help="A folder for charts (SVG and PNG); none: no charts.")
    ] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(help="Bids of an earlier day (instance file) to learn from; repeatable."),
    ] = None,
    arrivals: Arrivals = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", metavar="KEY=VALUE", help="A setting of the made-up market; repeatable."
        ),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(help="Nodes that are lost and return (JSON); none: all stay.")
    ] = None,
) -> None:
    """Simulate a market under one mechanism or several.

    Writes one decision a line and a report, all files whole or not at all.
    """
    contenders = _contenders(mechanism, settings or [], compare)
    if decisions is None and compare is None:
        raise InputError("--decisions", "is missing", "a file for the decisions")

    from auctune.cli.contest import Contest, Outputs, hold
    from auctune.sim.outages import read_outages

    _check_bound(bound)
    read = (instance, _beside(instance), arrivals, events, *(history or ()))
    check_output_paths((*read, *files_in(workload or ())), (decisions, report, charts))
    if history:
        check_learners(contenders)
    if streams(instance, decisions):
        _refuse_with_stream({"--compare": compare, "--charts": charts, "--bound": bound != "none"})
        check_stream(instance, decisions)
        market, bids = _stream(instance, arrivals, workload or [])
        outages = () if events is None else read_outages(events, market.cluster)
        _check_contenders(contenders, market, compared=False)
        assert decisions is not None
        earlier = read_history(history or [], market.cluster)
        simulate_stream(market, bids, contenders[0], earlier, outages, decisions, report)
        return
    market = _market(instance, arrivals, workload or [])
    outages = () if events is None else read_outages(events, market.cluster)
    _check_contenders(contenders, market, compared=compare is not None)
    earlier = read_history(history or [], market.cluster)
    hold(
        Contest(market, contenders, outages, earlier, bound, compared=compare is not None),
        Outputs(report, decisions, charts),
    )


def _contenders(
    mechanism: str | None, settings: list[str], compare: str | None
) -> "list[Contender]":
    wanted = parse_key_values(settings)
    if compare is None:
        if mechanism is None:
            raise InputError("--mechanism", "is missing", "a mechanism, or several by --compare")

        from auctune.sim.comparison import Contender

        return [Contender(mechanism, mechanism, wanted)]
    for option, given in (("--mechanism", mechanism), ("--set", settings)):
        if given:
            raise InputError(option, "is given with --compare", "one of the two")

    from auctune.sim.comparison import parse_contenders

    try:
        return parse_contenders(compare)
    except InputError as error:
        raise InputError("--compare", error.found, error.expected) from None


def _refuse_with_stream(given: "Mapping[str, object]") -> None:
    for option, value in given.items():
        if value:
            raise InputError(option, "needs all bids at once", "none, with a stream")


def _stream(
    instance: Path | None, arrivals: Path | None, workload: list[str]
) -> "tuple[Instance, Iterator[Task]]":
    if instance is not None and instance.suffix == ".parquet" and not (arrivals or workload):
        return open_market(instance)
    market = _market(instance, arrivals, workload)
    return market, iter(market.in_order())


def _check_bound(kind: str) -> None:
    from auctune.sim.bound import bound_kinds

    if kind not in bound_kinds():
        raise InputError(
            "--bound", f"{kind!r} is not offered", f"one of {', '.join(bound_kinds())}"
        )


def _check_contenders(
    contenders: "Sequence[Contender]", market: "Instance", *, compared: bool
) -> None:
    """Refuse mechanisms and settings that there are not, before any of them has run."""
    from auctune.sim.comparison import build

    for contender in contenders:
        try:
            build(contender, market)
        except InputError as error:
            if compared:
                place = f"--compare {contender.label}"
                place += "" if error.place == "mechanism" else f": {error.place}"
            else:
                place = "--mechanism" if error.place == "mechanism" else f"--set {error.place}"
            raise InputError(place, error.found, error.expected) from None


def _market(instance: Path | None, arrivals: Path | None, workload: list[str]) -> "Instance":
    if instance is None:
        if arrivals is None and not workload:
            raise InputError("INSTANCE", "is missing", "a file, or --arrivals or --workload")
        return make_market(arrivals, workload, "--workload")
    for option, given in (("--arrivals", arrivals), ("--workload", workload)):
        if given:
            raise InputError(option, "is given with an INSTANCE", "one of the two")

    from auctune.sim.instance_file import read_instance

    return read_instance(instance)


def _beside(instance: Path | None) -> Path | None:
    """The file with the cluster of tasks that are streamed."""
    streamed = instance is not None and instance.suffix == SUFFIX
    return instance.with_suffix(".json") if instance is not None and streamed else None
