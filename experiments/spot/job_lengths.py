"""The robust policy on jobs of 5 h to 92 h, each start charged to its instance.

Slots are half-hours and a start takes 12 minutes. One GPU on the series of `cant_be_late.py`, with
work for half of the slots to the deadline; at 5 h also with starts of 3 minutes, and eight GPUs on
the markets of the other figures. Value and ending are a job's defaults: nothing is left of it at
1.5 d. A cell is mean utility / mean utility of the offline optimum on the same jobs; that optimum
may be late, and its best without is a row of its own. Forecasts are the Markov chain's.
"""

from collections.abc import Mapping, Sequence

import polars as pl
from rich.console import Console
from scipy import stats

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.arrays import Floats
from auctune.numerics.estimates import ratio_of
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.spot import InstanceStart, Policy, Robust, SpotFirst, SpotJob, UniformProgress
from auctune.spot.forecasts import ForecastTable, MarkovChain
from cant_be_late import Series, generated, recorded
from spot_harness.options import Figure, Options, main
from spot_harness.trials import Trials

NAME = "job_lengths"
TITLE = "Jobs of 5 h to 92 h: utility / optimum"
SLOT_SECONDS, START_SLOTS, SHORT_START = 1800.0, 0.4, 0.1
HOURS = (5, 18, 70, 92)
MANY_GPUS = 8
MECHANISMS: Mapping[str, Policy] = {
    "UP": UniformProgress(),
    "MSU": SpotFirst(),
    "robust": Robust(),
    "robust(risk=0.05)": Robust(risk=0.05),
    "robust(risk=1)": Robust(risk=1.0),
}
ON_TIME = "optimum on time"
_SLACK = 1e-9


def job(hours: int, num_gpus: int, start: float = START_SLOTS) -> SpotJob:
    """Return a job whose work is half of what its GPUs can do by the deadline."""
    slots = round(hours * 3600 / SLOT_SECONDS)
    return SpotJob(
        workload=slots * num_gpus / 2,
        deadline=slots,
        n_max=num_gpus,
        overhead=InstanceStart(start),
    )


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market, length and mechanism."""
    series = generated(options.seed, 1 if options.quick else 20, SLOT_SECONDS)
    series += recorded(options.data, SLOT_SECONDS) if options.data is not None else []
    cells = [(one, hours, 1, START_SLOTS) for one in series for hours in HOURS]
    many = [Series(one) for one in options.all_markets()]
    cells += [(one, HOURS[0], MANY_GPUS, START_SLOTS) for one in many]
    cells += [(one, HOURS[0], 1, SHORT_START) for one in series]
    cells += [(one, HOURS[0], MANY_GPUS, SHORT_START) for one in many]
    rows: list[Mapping[str, float | str | None]] = []
    for one, hours, num_gpus, start in cells[:: 3 if options.quick else 1]:
        with console.status(f"{NAME}: {one.markets.name}, {hours} h"):
            trials = one.trials(job(hours, num_gpus, start), options.jobs, options.seed)
            name = f"{one.markets.name}, {num_gpus} GPU"
            minutes = start * SLOT_SECONDS / 60
            name += "" if start == START_SLOTS else f", starts of {minutes:g} min"
            rows += _measured(name, hours, trials)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), notes(frame))
    return frame


def _measured(
    market: str, hours: int, trials: Trials
) -> Sequence[Mapping[str, float | str | None]]:
    optimum, on_time = trials.optimum(), trials.optimum(on_time=True)
    rows = [_row(market, hours, ON_TIME, on_time, optimum, on_time, 0)]
    count, deadline = len(trials.jobs), trials.jobs[0].deadline
    made = trials.predicted(lambda _: MarkovChain(), deadline - 1)
    for name, policy in MECHANISMS.items():
        forecasts: Sequence[ForecastTable | None] = [None] * count
        outcome = trials.outcome([policy], made if policy.horizon is None else forecasts)
        late = int((outcome.finish[:, 0] > deadline + _SLACK).sum())
        rows.append(_row(market, hours, name, outcome.utility[:, 0], optimum, on_time, late))
    return rows


def _row(
    market: str,
    hours: int,
    name: str,
    utility: Floats,
    optimum: Floats,
    on_time: Floats,
    late: int,
) -> Mapping[str, float | str | None]:
    count = len(utility)
    ratio, kept = ratio_of(utility, optimum), ratio_of(utility, on_time)
    interval = stats.binomtest(late, count).proportion_ci()
    return {
        "market": market,
        "hours": hours,
        "mechanism": name,
        "jobs": count,
        "ratio": None if ratio is None else ratio.value,
        "half": None if ratio is None else ratio.half_width,
        "on_time": None if kept is None else kept.value,
        "late": late / count,
        "late_low": float(interval.low),
        "late_high": float(interval.high),
    }


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel for each market."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter((pl.col("market") == market) & pl.col("ratio").is_not_null())
        values = [
            Interval(
                f"{row['hours']} h",
                row["mechanism"],
                row["ratio"],
                max(row["ratio"] - row["half"], 0.0),
                row["ratio"] + row["half"],
            )
            for row in own.iter_rows(named=True)
        ]
        panels.append(Panel(f"utility / optimum, {market}", values, "dots", ".0%"))
    return estimates_chart(panels, axis="deadline")


def table(frame: pl.DataFrame) -> Rows:
    """For each market a row a mechanism."""
    rows: list[tuple[str, ...]] = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        cells = {(row["mechanism"], row["hours"]): row for row in own.iter_rows(named=True)}
        rows.append((f"{market}:", *("" for _ in HOURS)))
        rows += [
            (name, *(_cell(cells.get((name, hours))) for hours in HOURS))
            for name in own["mechanism"].unique(maintain_order=True)
        ]
    return Rows(("", *(f"{hours} h" for hours in HOURS)), tuple(rows))


def _cell(row: Mapping[str, float | None] | None) -> str:
    if row is None or row["ratio"] is None or row["half"] is None:
        return "-"
    late = f", late {row['late']:.0%} ({row['late_low']:.0%} to {row['late_high']:.0%})"
    return f"{row['ratio']:.1%} ±{100 * row['half']:.1f}{late if row['late'] else ''}"


def notes(frame: pl.DataFrame) -> Sequence[str]:
    """How many jobs, and how the robust policy does by its risk."""

    def least(mechanism: str, column: str) -> tuple[int, int, float]:
        """Return cells at 97% or more, cells, and the least share."""
        shares = frame.filter(pl.col("mechanism") == mechanism)[column]
        lowest = shares.min()
        assert isinstance(lowest, float)
        return int((shares >= 0.97).sum()), len(shares), lowest

    lines = [
        f"{frame['jobs'][0]} jobs in each cell; the optimum on time has at least "
        f"{least(ON_TIME, 'ratio')[2]:.1%} of the optimum"
    ]
    for name in ("robust", "robust(risk=0.05)"):
        own = frame.filter(pl.col("mechanism") == name)
        for column, yardstick in (("ratio", "optimum"), ("on_time", "optimum on time")):
            reached, cells, lowest = least(name, column)
            lines.append(
                f"{name}: at 97% of the {yardstick} or more in {reached} of {cells} cells, "
                f"at least {lowest:.1%}"
            )
        late, jobs = round((own["late"] * own["jobs"]).sum()), own["jobs"].sum()
        lines[-1] += f"; late in {late} of {jobs} jobs"
    return lines


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
