"""Theorem 1: how far AHAP stays behind the offline optimum, by error, window and commitment.

The theorem bounds that gap by the error of the predicted utility, summed over the slots of a window
and divided by the commitment. The text that its formula would be read from has lost it, so that the
bound itself is not drawn; shown is the gap that it bounds. Noise is uniform and of fixed magnitude,
the paper's simplest, and in all cells that of the same seed.
"""

from collections.abc import Mapping
from functools import partial

import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.estimates import mean_of
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.spot import Ahap, SpotJob
from spot_harness.noise import KINDS
from spot_harness.options import Figure, Options, main
from spot_harness.trials import same_job

NAME = "theorem1"
TITLE = "Theorem 1: utility of the optimum less that of AHAP"
NOISE = KINDS["fixed magnitude, uniform"]
ERRORS = (0.0, 0.1, 0.3, 0.5, 1.0, 2.0)
POLICIES = tuple(
    Ahap(window, commitment, 0.4) for window, commitment in ((1, 1), (3, 1), (5, 1), (5, 3), (5, 5))
)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market, error and policy."""
    rows: list[Mapping[str, object]] = []
    for markets in options.all_markets():
        trials = same_job(markets, SpotJob(workload=80, deadline=10), options.jobs, options.seed)
        optimum = trials.optimum()
        for error in ERRORS:
            with console.status(f"{NAME}: {markets.name}, {error:.0%}"):
                make = partial(NOISE.forecaster, error=error, seed=options.seed)
                utility = trials.played(POLICIES, trials.predicted(make))
            for index, policy in enumerate(POLICIES):
                gap = mean_of(optimum - utility[:, index])
                rows.append(
                    {
                        "market": markets.name,
                        "error": error,
                        "w": policy.window,
                        "c": policy.commitment,
                        "gap": gap.value,
                        "half": gap.half_width or 0.0,
                        "optimum": float(optimum.mean()),
                        "jobs": options.jobs,
                    }
                )
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [*notes(frame), f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel for each market, a line for each policy."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        curves = [
            Curve(
                f"w = {window}, c = {commitment}",
                [100 * error for error in lines["error"]],
                lines["gap"].to_list(),
            )
            for (window, commitment), lines in own.group_by("w", "c", maintain_order=True)
        ]
        panels.append(CurvePanel(market, "optimum - AHAP", curves, from_zero=True))
    return curves_chart(panels, x_title="error of the forecasts, % of the mean", height=150)


def table(frame: pl.DataFrame) -> Rows:
    """For each market a row a policy."""
    heads = ("error", *(f"{error:.0%}" for error in ERRORS))
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        rows.append((f"{market}:", *("" for _ in ERRORS)))
        rows += [
            (
                f"w = {window}, c = {commitment}",
                *(f"{one['gap']:.1f} ±{one['half']:.1f}" for one in lines.iter_rows(named=True)),
            )
            for (window, commitment), lines in own.group_by("w", "c", maintain_order=True)
        ]
    return Rows(heads, tuple(rows))


def notes(frame: pl.DataFrame) -> list[str]:
    """What the gap is to be compared with."""
    optimum = frame.group_by("market", maintain_order=True).agg(pl.col("optimum").first())
    means = ", ".join(f"{market} {value:.1f}" for market, value in optimum.iter_rows())
    return [f"{frame['jobs'][0]} jobs, sigma = 0.4; mean utility of the optimum: {means}."]


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
