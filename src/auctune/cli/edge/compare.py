"""`auctune edge compare`: an edge market through several mechanisms, side by side."""

from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.outputs import check_output_paths, write_files, write_json
from auctune.cli._support.progress import warn_compiling
from auctune.cli.edge.options import (
    MECHANISMS,
    Bound,
    Charts,
    Instance,
    Report,
    TimeLimit,
    check_bound,
)
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart
    from auctune.sim.edge.contest import EdgeBound, EdgePlayed


def compare(
    instance: Instance,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE...]",
            help=f"{MECHANISMS}; repeatable; none: each, and eris with both prices.",
        ),
    ] = None,
    report: Report = None,
    bound: Bound = "lp",
    time_limit: TimeLimit = 60.0,
    charts: Charts = None,
) -> None:
    """Run known jobs through several mechanisms; no training.

    Shows welfare, profit, jobs run to their ends, and welfare over the bound.
    """
    check_bound(bound, time_limit)
    check_output_paths([instance], (report, charts))

    from auctune.cli.edge.tables import show_played
    from auctune.sim.edge.contest import DEFAULT_PLAYERS, bound_of, parse_player, play
    from auctune.sim.edge.contest import report as figures_of
    from auctune.sim.edge.instance_file import read_edge_instance

    labels = mechanism or list(DEFAULT_PLAYERS)
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise InputError("--mechanism", f"{label} is there twice", "each mechanism once")
    players = [parse_player(label) for label in labels]
    market = read_edge_instance(instance)
    warn_compiling("plan_cost", "the edge's")
    rows = [play(label, one, market) for label, one in zip(labels, players, strict=True)]
    most = bound_of(market, bound, time_limit)
    figures = [figures_of(market, row, most) for row in rows]
    write_files({report: write_json(figures)}, charts, {"edge-welfare": lambda: _draw(rows, most)})
    show_played(rows, most)


def _draw(rows: "list[EdgePlayed]", bound: "EdgeBound | None") -> "AnyChart":
    from auctune.charts.estimates import Estimate, Line, Panel, estimates_chart

    line = None if bound is None else Line(bound.value, "bound")
    welfare = [
        Estimate("welfare", row.label, row.welfare, row.welfare, row.welfare) for row in rows
    ]
    profit = [Estimate("profit", row.label, row.profit, row.profit, row.profit) for row in rows]
    return estimates_chart([Panel("money", [*welfare, *profit], line=line)], axis="")
