"""Prediction errors and allocators on recorded curves; LARA, Figures 5 and 6 and section 4.

    python experiments/timeshare/estimators.py [--curves DIR] [--bundles N] [--threads N ...]

Prints how estimators foretell needs (errors by units seen, and microseconds), what allocators do of
the bundles of Tables 1 and 2, and of bundles drawn by seed with more and more threads. LARA is shown
at several lengths of exploration, so that it is held against at its best.
"""  # noqa: E501

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from auctune.sim.spot.estimate import Estimate
from auctune.sim.timeshare.accuracy import POINTS, make_trials, measure
from auctune.sim.timeshare.bundle import RecordedBundle
from auctune.sim.timeshare.contest import Contest, compete
from auctune.sim.timeshare.drawn import draw_bundle
from auctune.sim.timeshare.recorded import SHIPPED, RecordedCurve, read_curves
from auctune.sim.timeshare.table_bundles import MIXED, PURE, make_bundles
from auctune.timeshare import (
    M4,
    Allocator,
    Doubt,
    EarliestFirst,
    EasiestFirst,
    Exploration,
    LeastResourcesFirst,
    Ls,
    Mixture,
    Planner,
    ShortestFirst,
    Thompson,
    Ucb,
    Uniform,
    Wls,
    headway,
    lara,
)

ESTIMATORS = (Wls(), Ls(), M4(), Mixture())
EXPLORATIONS = (0.02, 0.05, 0.1, 0.2, 0.4)


def allocators() -> Mapping[str, Allocator]:
    """By what they are called in the tables."""
    named: dict[str, Allocator] = {"uniform": Uniform(), "stf": ShortestFirst()}
    named["lrf"] = Planner(rule=LeastResourcesFirst())
    named["etf"] = Planner(rule=EasiestFirst())
    named |= {f"lara, {share:g} explored": lara(Exploration(share=share)) for share in EXPLORATIONS}
    named["lara with the mixture"] = Planner(Mixture())
    named["lara, ucb"] = Planner(balancing=Ucb())
    named["lara, thompson"] = Planner(balancing=Thompson())
    named["headway"] = headway()
    named["headway with wls"] = Planner(Wls(), Doubt(), EarliestFirst())
    return named


def show_accuracy(console: Console, curves: Sequence[RecordedCurve], title: str) -> None:
    """Errors by units seen."""
    trials = make_trials(curves)
    table = Table(title=f"{title}: error of the need, {len(trials)} trials")
    heads = [str(point) for point in POINTS]
    for head in ("estimator", *heads, "mean", "median", "log", "us"):
        table.add_column(head, justify="left" if head == "estimator" else "right")
    for estimator in ESTIMATORS:
        one = measure(estimator, trials)
        cells = [f"{error:.2f}" for error in one.errors]
        summary = (f"{one.mean:.3f}", f"{one.median:.3f}", f"{one.log_error:.3f}")
        table.add_row(one.name, *cells, *summary, f"{one.microseconds:.2f}")
    console.print(table)


def show_contest(console: Console, bundles: Sequence[RecordedBundle], title: str) -> None:
    """Threads done by each allocator."""
    named = allocators()
    contest: Contest = compete(bundles, list(named.values()))
    attainable = sum(bundle.attainable().num_done for bundle in bundles) / len(bundles)
    table = Table(
        title=f"{title}: optimum {contest.optimum.mean():.2f}, attainable {attainable:.2f}"
    )
    for head in ("allocator", "done", "of optimum", "turns"):
        table.add_column(head, justify="left" if head == "allocator" else "right")
    for index, name in enumerate(named):
        one = contest.standing(index)
        ratio = "" if one.of_optimum is None else figure(one.of_optimum, 3)
        table.add_row(name, figure(one.done, 2), ratio, f"{one.switches.value:.0f}")
    console.print(table)


def figure(estimate: Estimate, digits: int) -> str:
    """A value with its interval."""
    width = "" if estimate.half_width is None else f" ± {estimate.half_width:.{digits}f}"
    return f"{estimate.value:.{digits}f}{width}"


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--curves", type=Path, default=SHIPPED)
    parser.add_argument("--bundles", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="*", default=[10, 25, 50, 75, 100])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    console, curves = Console(width=110), read_curves(given.curves)
    for table in (PURE, MIXED):
        own = [curve for curve in curves if curve.bundle == table.name]
        if own:
            show_accuracy(console, own, table.name)
    show_accuracy(console, curves, "all")
    for table in (PURE, MIXED):
        own = [curve for curve in curves if curve.bundle == table.name]
        if len(own) == len(table.deadlines):
            for bundle in make_bundles(table, own):
                show_contest(console, [bundle], bundle.name)
    for num in given.threads:
        bundles = [draw_bundle(curves, num, given.seed, index=i) for i in range(given.bundles)]
        show_contest(console, bundles, f"{num} threads, {len(bundles)} bundles")


if __name__ == "__main__":
    main()
