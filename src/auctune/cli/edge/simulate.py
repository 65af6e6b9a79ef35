"""`auctune edge simulate`: an edge market through one mechanism; decisions and figures out."""

from pathlib import Path
from typing import Annotated

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


def simulate(
    instance: Instance,
    mechanism: Annotated[
        str, typer.Option(metavar="NAME[:KEY=VALUE...]", help=f"One of {MECHANISMS}.")
    ] = "eris",
    decisions: Annotated[
        Path | None, typer.Option(help="Where the decisions go (JSON lines); none: nowhere.")
    ] = None,
    report: Report = None,
    bound: Bound = "none",
    time_limit: TimeLimit = 60.0,
    charts: Charts = None,
) -> None:
    """Run known jobs through one mechanism; no training.

    Every plan is checked against the constraints beside those before it.
    """
    check_bound(bound, time_limit)
    check_output_paths([instance], (decisions, report, charts))

    from auctune.charts.edge_use import edge_use_chart
    from auctune.cli.edge.tables import show_played
    from auctune.sim.edge.contest import bound_of, parse_player, play, use_by_slot
    from auctune.sim.edge.contest import report as figures_of
    from auctune.sim.edge.decision_file import write_edge_decisions
    from auctune.sim.edge.instance_file import read_edge_instance

    player = parse_player(mechanism)
    market = read_edge_instance(instance)
    warn_compiling("plan_cost", "the edge's")
    played = play(mechanism, player, market)
    most = bound_of(market, bound, time_limit)
    use = use_by_slot(market, played.decisions)
    write_files(
        {
            decisions: lambda file: write_edge_decisions(played.decisions, file),
            report: write_json(figures_of(market, played, most)),
        },
        charts,
        {"edge-use": lambda: edge_use_chart(use)},
    )
    show_played([played], most)
