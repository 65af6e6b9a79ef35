"""`auctune edge make`, `simulate` and `compare`: edge markets without training."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.options import (
    LABEL,
    Charts,
    option_groups,
    parse_key_values,
    parse_labels,
)
from auctune.cli._support.outputs import check_output_paths, write_files, write_json
from auctune.cli._support.progress import warn_compiling
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError
from auctune.edge.search.forward import plan_cost
from auctune.registry.policies import EDGE_ENTRIES
from auctune.sim.edge.comparison import (
    DEFAULT_ENTRIES,
    EdgeBound,
    EdgePlayed,
    bound_of,
    play,
    use_by_slot,
)
from auctune.sim.edge.comparison import report as figures_of
from auctune.sim.edge.decision_file import write_edge_decisions
from auctune.sim.edge.instance_file import read_edge_instance, write_edge_instance
from auctune.sim.edge.settings import make_instance, setting_of

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart

_MECHANISMS = "eris, tiresias, antman or liquid"
_BOUNDS = ("none", "lp", "milp")

Instance = Annotated[
    Path,
    typer.Argument(metavar="INSTANCE", help="The market and its jobs (JSON).", show_default=False),
]
Bound = Annotated[
    str, typer.Option(metavar="BOUND", help="Upper bound on welfare: none, lp or milp.")
]


@dataclass(frozen=True, slots=True)
class EdgeOutputs:
    """Options of `simulate` and `compare`."""

    time_limit: Annotated[float, typer.Option(help="Seconds for --bound milp.")] = 60.0
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures (JSON).")
    ] = None
    charts: Charts = None


def make(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the instance (JSON).")],
    setting: Annotated[
        str, typer.Option(metavar="NAME", help="The paper's setting: simulation or testbed.")
    ] = "simulation",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter; repeatable."),
    ] = None,
) -> None:
    """Generate an edge market in the paper's setting.

    Sites and jobs are drawn from a seed.
    """
    values = parse_key_values(settings or [])
    try:
        parameters = setting_of(setting, values)
    except InputError as error:
        place = "--setting" if error.place == "setting" else f"--set {error.place}"
        raise error.at(place) from None
    instance = make_instance(parameters)
    write_edge_instance(instance, out)
    market = instance.market
    typer.echo(f"{out}: {len(market.sites)} sites, {market.slots} slots, {len(instance.jobs)} jobs")


@option_groups
def simulate(
    instance: Instance,
    outputs: EdgeOutputs,
    mechanism: Annotated[
        str, typer.Option(metavar=LABEL, help=f"The mechanism: {_MECHANISMS}.")
    ] = "eris",
    decisions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the decisions (JSON lines).")
    ] = None,
    bound: Bound = "none",
) -> None:
    """Simulate a market under one mechanism.

    Each plan is checked against the constraints, together with the earlier plans.
    """
    _check_bound(bound, outputs.time_limit)
    check_output_paths([instance], (decisions, outputs.report, outputs.charts))
    entry = EDGE_ENTRIES.parse(mechanism, "--mechanism")
    market = read_edge_instance(instance)
    warn_compiling(plan_cost, "the edge's")
    played = play(mechanism, entry, market)
    upper = bound_of(market, bound, outputs.time_limit)
    use = use_by_slot(market, played.decisions)

    def draw() -> "AnyChart":
        from auctune.charts.curves import edge_use_chart

        return edge_use_chart(use)

    write_files(
        {
            decisions: lambda file: write_edge_decisions(played.decisions, file),
            outputs.report: write_json(figures_of(market, played, upper)),
        },
        outputs.charts,
        {"edge-use": draw},
    )
    _print_outcomes([played], upper)


@option_groups
def compare(
    instance: Instance,
    outputs: EdgeOutputs,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar=LABEL,
            help=f"{_MECHANISMS}; repeatable. Default: each, and eris:pricing=paper.",
        ),
    ] = None,
    bound: Bound = "lp",
) -> None:
    """Compare mechanisms on a market.

    Shows welfare, profit, completed jobs, and welfare over the bound.
    """
    _check_bound(bound, outputs.time_limit)
    check_output_paths([instance], (outputs.report, outputs.charts))
    labels = mechanism or DEFAULT_ENTRIES
    entries = parse_labels(labels, "--mechanism", EDGE_ENTRIES)
    market = read_edge_instance(instance)
    warn_compiling(plan_cost, "the edge's")
    rows = [play(label, one, market) for label, one in zip(labels, entries, strict=True)]
    upper = bound_of(market, bound, outputs.time_limit)
    write_files(
        {outputs.report: write_json([figures_of(market, row, upper) for row in rows])},
        outputs.charts,
        {"edge-welfare": lambda: _draw_welfare(rows, upper)},
    )
    _print_outcomes(rows, upper)


def _check_bound(kind: str, time_limit: float) -> None:
    if kind not in _BOUNDS:
        raise InputError("--bound", f"{kind!r} is not offered", f"one of {', '.join(_BOUNDS)}")
    if not 0 < time_limit < float("inf"):
        raise InputError("--time-limit", f"{time_limit!r}", "seconds > 0")


def _draw_welfare(rows: Sequence[EdgePlayed], bound: EdgeBound | None) -> "AnyChart":
    from auctune.charts.estimates import Interval, Line, Panel, estimates_chart

    def estimate(group: str, label: str, value: float) -> Interval:
        return Interval(group, label, value, value, value)

    line = None if bound is None else Line(bound.value, "bound")
    welfare = [estimate("welfare", row.label, row.welfare) for row in rows]
    profit = [estimate("profit", row.label, row.profit) for row in rows]
    return estimates_chart([Panel("money", [*welfare, *profit], line=line)], axis="")


def _print_outcomes(rows: Sequence[EdgePlayed], bound: EdgeBound | None) -> None:
    numbers = ("welfare", "profit", "admitted", "of bound", "p50 ms")
    table = make_table("mechanism", *numbers, right=numbers)
    for row in rows:
        seconds = statistics.median(row.seconds) if row.seconds else None
        share = None if bound is None or bound.value <= 0 else row.welfare / bound.value
        table.add_row(
            row.label,
            f"{row.welfare:,.1f}",
            f"{row.profit:,.1f}",
            f"{row.num_admitted} of {len(row.decisions)}",
            "-" if share is None else f"{share:.1%}",
            "-" if seconds is None else f"{seconds * 1e3:.1f}",
        )
    print_table(table)
    if bound is not None:
        typer.echo(f"upper bound on welfare ({bound.kind}): {bound.value:,.1f}")
        if bound.reached is not None:
            ended = "the optimum" if bound.optimal else "the best found within --time-limit"
            typer.echo(f"offline, with all bids in advance: {bound.reached:,.1f}, {ended}")
