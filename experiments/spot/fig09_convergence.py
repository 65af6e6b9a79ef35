"""Figure 9: selection among the paper's 112 policies under four kinds of noise.

1,000 jobs with L uniform in [60, 100], N_min in {1, 2, 4}, N_max in {8, 12, 16}, d = 10. What a
selector comes to is the weighted mean of what the policies made of each job, in money. It learns by
the paper's rate, made for 1,000 jobs, and by one that adapts (AdaHedge).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.arrays import Floats
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.selection import LearnerName, make_learner, select
from auctune.spot import Ahap, Policy, default_pool
from spot_harness.noise import KINDS, NoiseKind
from spot_harness.options import Figure, Options, main
from spot_harness.trials import Trials, drawn_jobs

NAME = "fig09_convergence"
TITLE = "Figure 9: convergence under noise"
ERRORS = (0.1, 0.3, 0.5, 2.0)
RATES: Mapping[str, LearnerName] = {"paper": "known", "adaptive": "adaptive"}
AFTER = 500
# Pools of AHAP with one setting held, as in the paper; its constants are not given.
HELD: Mapping[str, Callable[[Ahap], bool]] = {
    "w = 1": lambda policy: policy.window == 1,
    "w = 5": lambda policy: policy.window == 5,
    "c = w": lambda policy: policy.commitment == policy.window,
    "sigma = 0.3": lambda policy: policy.sigma == 0.3,
}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market, kind of noise and error."""
    rows = []
    for markets in options.all_markets():
        trials = drawn_jobs(markets, options.jobs, options.seed)
        optimum = trials.optimum()
        for name, kind in KINDS.items():
            for error in ERRORS:
                with console.status(f"{NAME}: {markets.name}, {name}, {error:.0%}"):
                    utility = _utility(trials, kind, error, options.seed)
                    named = {"market": markets.name, "noise": name, "error": error}
                    rows.append({**named, **_measured(trials, utility, optimum)})
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [*notes(frame), f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel a kind of noise, on the paper-like market: the selector's share of the best."""
    own = frame.filter(pl.col("market") == frame["market"][0])
    least, most = own["error"].min(), own["error"].max()
    panels = []
    for name in own["noise"].unique(maintain_order=True):
        rows = own.filter((pl.col("noise") == name) & pl.col("error").is_in([least, most]))
        curves = [
            Curve(
                f"{rate} rate, {row['error']:.0%} error",
                range(1 + _from(row), row["jobs"] + 1),
                row[f"share_{rate}"][_from(row) :],
            )
            for rate in RATES
            for row in rows.iter_rows(named=True)
        ]
        panels.append(CurvePanel(f"{name} noise", "of the best fixed", curves, ".0%"))
    return curves_chart(panels, x_title="jobs", height=90)


def _from(row: Mapping[str, Any]) -> int:
    """The first job that is drawn: shares of a few jobs are anything."""
    return min(20, int(row["jobs"]) // 2)


def table(frame: pl.DataFrame) -> Rows:
    """A row a kind of noise and error."""
    held = tuple(f"best with {name}" for name in HELD)
    heads = (
        "noise",
        "best of 112",
        "of the optimum",
        *held,
        f"selector after {AFTER}, paper's rate",
        "adaptive",
        "regret / bound, paper's rate",
    )
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        rows.append((f"{market}:", *("" for _ in heads[1:])))
        for row in frame.filter(pl.col("market") == market).iter_rows(named=True):
            after = min(AFTER, row["jobs"]) - 1
            rows.append(
                (
                    f"{row['noise']}, {row['error']:.0%}",
                    row["best"],
                    f"{row['of_optimum']:.1%}",
                    *(f"{row[name]:.1%}" for name in HELD),
                    *(f"{row[f'share_{rate}'][after]:.1%}" for rate in RATES),
                    f"{row['regret_paper']:.1f} / {row['bound_paper']:.1f}",
                )
            )
    return Rows(heads, tuple(rows))


def notes(frame: pl.DataFrame) -> list[str]:
    """Least shares."""
    said = []
    for rate in RATES:
        shares = [row[min(AFTER, len(row)) - 1] for row in frame[f"share_{rate}"].to_list()]
        said.append(f"{rate} rate: {min(shares):.1%} of the best after {AFTER} jobs at least")
    return [*said, "goal: 97%"]


def _utility(trials: Trials, kind: NoiseKind, error: float, seed: int) -> Floats:
    forecasts = trials.predicted(partial(kind.forecaster, error=error, seed=seed))
    return trials.played(default_pool(), forecasts)


def _measured(trials: Trials, utility: Floats, optimum: Floats) -> Mapping[str, object]:
    pool, scale = default_pool(), trials.scale()
    mean = utility.mean(axis=0)
    best = int(np.argmax(mean))
    found: dict[str, object] = {
        "jobs": len(utility),
        "best": pool[best].name,
        "of_optimum": mean[best] / optimum.mean(),
    }
    found |= {
        name: max(mean[m] for m, policy in enumerate(pool) if _holds(policy, held)) / optimum.mean()
        for name, held in HELD.items()
    }
    # Of the best after as many jobs, which need not be the best of all.
    leader = np.cumsum(utility, axis=0).max(axis=1)
    for rate, learner in RATES.items():
        made = select(utility, scale, make_learner(learner, len(utility), 0, 1), "mean")
        found[f"share_{rate}"] = (np.cumsum(made.money) / leader).tolist()
        found[f"regret_{rate}"] = float(made.regret[-1])
        found[f"bound_{rate}"] = float(made.bound[-1])
    return found


def _holds(policy: Policy, held: Callable[[Ahap], bool]) -> bool:
    return isinstance(policy, Ahap) and held(policy)


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
