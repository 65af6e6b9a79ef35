"""Figure 10: selection while the quality of forecasts changes, in the paper's four phases.

Jobs 0 to 800 with fixed-magnitude uniform noise of 10%, to 1,600 heavy-tailed of 30%, to 2,400
uniform of 50%, to 3,600 uniform of 200% (of which kind the last is the paper does not say).
Learners are held against the best sequence of policies with three changes, known in hindsight. In
money a job's outcome is the weighted mean of what the policies made of it.

Fixed share is tuned for 3,600 jobs and three changes; the window remembers 400 jobs, half a phase.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts import LIGHT, HeatGrid, heat_map
from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart, apply_theme
from auctune.numerics.arrays import Floats
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.spot.selection import LearnerName, Selection, best_sequence, make_learner, select
from auctune.spot import Ahanp, Ahap, Policy, default_pool
from spot_harness.markets import Markets
from spot_harness.noise import KINDS, NoiseKind
from spot_harness.options import Figure, Options, main
from spot_harness.trials import Trials, drawn_jobs

NAME = "fig10_drift"
TITLE = "Figure 10: drift"
UNIFORM, HEAVY = KINDS["fixed magnitude, uniform"], KINDS["fixed magnitude, heavy-tailed"]
# Kind of noise, error, share of all jobs.
PHASES: Sequence[tuple[NoiseKind, float, float]] = (
    (UNIFORM, 0.1, 8 / 36),
    (HEAVY, 0.3, 8 / 36),
    (UNIFORM, 0.5, 8 / 36),
    (UNIFORM, 2.0, 12 / 36),
)
# As many jobs as the paper's for the 1,000 of other figures.
MORE_JOBS = 3.6
CHANGES = len(PHASES) - 1
LEARNERS: Mapping[str, LearnerName] = {
    "fixed share": "share",
    "sliding window": "window",
    "adaptive rate": "adaptive",
    "paper's rate": "known",
}
# A column of the map is so many jobs.
COLUMNS = 360


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market and learner."""
    rows: list[Mapping[str, object]] = []
    for markets in options.all_markets():
        with console.status(f"{NAME}: {markets.name}"):
            rows += _rows(markets, options)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    for learner in ("fixed share", "adaptive rate", "paper's rate"):
        name = f"{NAME}-weights-{learner.replace(' ', '-').replace(chr(39), '')}"
        write_chart(weights_chart(frame, learner), options.out, name)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """What learners have come to, over what the best sequence has."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        curves = [
            Curve(row["learner"], range(1, row["jobs"] + 1), row["behind"])
            for row in own.iter_rows(named=True)
        ]
        panels.append(CurvePanel(market, "behind, money", curves, ",.0f"))
    return curves_chart(panels, x_title="jobs", height=150)


def weights_chart(frame: pl.DataFrame, learner: str) -> AnyChart:
    """Weights of all policies on the paper-like market."""
    (row,) = frame.filter(
        (pl.col("market") == frame["market"][0]) & (pl.col("learner") == learner)
    ).iter_rows(named=True)
    width = row["jobs"] / len(row["weights"])
    grid = HeatGrid(
        100 * np.array(row["weights"]),
        tuple(short_name(policy) for policy in default_pool()),
        f"weight, %, {learner}",
        column=f"columns of {width:g} jobs",
    )
    return apply_theme(heat_map(grid, LIGHT.price_ramp, LIGHT, width=720), LIGHT)


def short_name(policy: Policy) -> str:
    """What tells it from the others."""
    if isinstance(policy, Ahap):
        return f"w{policy.window} c{policy.commitment} {policy.sigma:g}"
    assert isinstance(policy, Ahanp)
    return f"AHANP {policy.sigma:g}"


def table(frame: pl.DataFrame) -> Rows:
    """A row a learner."""
    phases = tuple(f"phase {index + 1}" for index in range(len(PHASES)))
    heads = (
        "money / best sequence",
        "all",
        *phases,
        "best fixed / best sequence",
        "regret",
        "bound",
    )
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        rows.append((f"{market}:", *("" for _ in heads[1:])))
        rows.append(("best policy of the phase", "", *own["best"][0], "", "", ""))
        for row in own.iter_rows(named=True):
            bound = row["bound"]
            rows.append(
                (
                    row["learner"],
                    f"{row['share']:.1%}",
                    *(f"{share:.1%}" for share in row["shares"]),
                    f"{row['fixed']:.1%}",
                    f"{row['regret']:.1f}",
                    "-" if bound is None else f"{bound:.1f}",
                )
            )
    return Rows(heads, tuple(rows))


def _rows(markets: Markets, options: Options) -> list[Mapping[str, object]]:
    trials = drawn_jobs(markets, round(MORE_JOBS * options.jobs), options.seed)
    parts = _phases(len(trials.jobs))
    utility = np.concatenate(
        [
            _of_phase(trials, part, kind, error, options.seed)
            for part, (kind, error, _) in zip(parts, PHASES, strict=True)
        ]
    )
    scale = trials.scale()
    _, best = best_sequence(scale.scaled(utility), CHANGES)
    money = utility[np.arange(len(utility)), best]
    pool = default_pool()
    common = {
        "market": markets.name,
        "jobs": len(utility),
        "best": [pool[int(utility[part].mean(axis=0).argmax())].name for part in parts],
        "fixed": float(utility.sum(axis=0).max() / money.sum()),
    }
    rows: list[Mapping[str, object]] = []
    for name, learner in LEARNERS.items():
        window = max(1, round(len(utility) / 9))
        how = make_learner(learner, len(utility), CHANGES, window)
        made = select(utility, scale, how, "mean", num_changes=CHANGES)
        # That of the others is against the best fixed policy, and says nothing of a sequence.
        bound = float(made.bound[-1]) if learner == "share" else None
        measured = _measured(made, money, parts)
        rows.append({**common, "learner": name, "bound": bound, **measured})
    return rows


def _measured(made: Selection, money: Floats, parts: Sequence[slice]) -> Mapping[str, object]:
    return {
        "share": float(made.money.sum() / money.sum()),
        "shares": [float(made.money[part].sum() / money[part].sum()) for part in parts],
        "regret": float(made.regret[-1]),
        "behind": np.cumsum(money - made.money).tolist(),
        "weights": _by_column(made.weights[:-1]).tolist(),
    }


def _by_column(weights: Floats) -> Floats:
    """[column, m] means over neighbouring jobs."""
    groups = np.array_split(weights, min(COLUMNS, len(weights)))
    return np.array([group.mean(axis=0) for group in groups])


def _phases(num_jobs: int) -> list[slice]:
    ends = np.round(np.cumsum([share for *_, share in PHASES]) * num_jobs).astype(int).tolist()
    return [slice(first, end) for first, end in zip([0, *ends[:-1]], ends, strict=True)]


def _of_phase(trials: Trials, part: slice, kind: NoiseKind, error: float, seed: int) -> Floats:
    own = Trials(trials.markets, trials.jobs[part], trials.starts[part])
    forecasts = own.predicted(partial(kind.forecaster, error=error, seed=seed))
    return own.played(default_pool(), forecasts)


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
