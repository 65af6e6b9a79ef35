"""`auctune simulate`: an instance file through a mechanism; decisions and figures out."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.settings import parse_settings
from auctune.cli.workload import Arrivals, make_market
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.engine import Watch
    from auctune.sim.instance import Instance
    from auctune.sim.metrics import SimulationReport

_BOUNDS = ("none",)


def simulate(
    mechanism: Annotated[str, typer.Option(help="pdftsp, eft or ntm.")],
    decisions: Annotated[Path, typer.Option(help="Where the decisions go (JSON lines).")],
    report: Annotated[Path, typer.Option(help="Where the figures go (JSON).")],
    instance: Annotated[
        Path | None,
        typer.Argument(help="The market: an instance file (JSON); none: it is made up."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the mechanism; repeatable."),
    ] = None,
    bound: Annotated[str, typer.Option(help="Upper bound on welfare: none.")] = "none",
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
    """Run a market of known bids through a mechanism, bid by bid.

    Writes one decision a line and a report, both whole or not at all.
    """
    if bound not in _BOUNDS:
        raise InputError("--bound", f"{bound!r} is not offered", f"one of {', '.join(_BOUNDS)}")
    wanted = parse_settings(settings or [])

    from auctune import registry
    from auctune.numerics.jit import COMPILING, kernels_are_compiled
    from auctune.sim.atomic_file import AtomicFiles
    from auctune.sim.engine import simulate as run_market
    from auctune.sim.metrics import measure
    from auctune.sim.outages import read_outages
    from auctune.sim.result_file import write_decisions, write_report
    from auctune.sim.warm_up import warm_up

    _refuse_overwriting(instance or arrivals, (decisions, report))
    market = _market(instance, arrivals, workload or [])
    outages = () if events is None else read_outages(events, market.cluster)
    try:
        admission = registry.build(mechanism, market.cluster, wanted, market.tasks)
    except InputError as error:
        raise _on_command_line(error) from None
    with AtomicFiles([decisions, report]) as (decisions_file, report_file):
        if not kernels_are_compiled():
            typer.echo(COMPILING, err=True)
        warm_up(market, lambda: registry.build(mechanism, market.cluster, wanted, market.tasks))
        with _progress(market) as watch:
            result = run_market(market, admission, watch=watch, outages=outages)
        write_decisions(result, decisions_file)
        figures = measure(result)
        write_report(figures, report_file)
    _show(mechanism, figures)


def _on_command_line(error: InputError) -> InputError:
    place = "--mechanism" if error.place == "mechanism" else f"--set {error.place}"
    return InputError(place, error.found, error.expected)


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


def _refuse_overwriting(source: Path | None, outputs: tuple[Path, ...]) -> None:
    for output in outputs:
        if source is not None and output.resolve() == source.resolve():
            raise InputError(str(output), "is the instance itself", "another file to write")


@contextlib.contextmanager
def _progress(market: "Instance") -> Iterator["Watch | None"]:
    """A bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("deciding", total=len(market.tasks))
        yield lambda _task, _decision: progress.advance(bar)


def _show(mechanism: str, figures: "SimulationReport") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=mechanism, show_header=False, title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for what, figure in _rows(figures):
        table.add_row(what, figure)
    Console().print(table)


def _rows(figures: "SimulationReport") -> Iterator[tuple[str, str]]:
    yield "tasks", f"{figures.num_tasks:,}"
    yield "admitted", f"{figures.num_admitted:,}"
    for what in ("welfare", "revenue", "vendor_cost", "operating_cost"):
        yield what.replace("_", " "), f"{getattr(figures, what):,.4f}"
    for what, by_slot in (
        ("compute", figures.utilization.compute),
        ("memory", figures.utilization.memory),
    ):
        yield f"{what} used", f"{sum(by_slot) / len(by_slot):.1%}"
    seconds = figures.decision_seconds
    if seconds.p50 is not None and seconds.p99 is not None:
        yield "time to decide, median", f"{seconds.p50 * 1e6:,.0f} us"
        yield "time to decide, 99%", f"{seconds.p99 * 1e6:,.0f} us"
