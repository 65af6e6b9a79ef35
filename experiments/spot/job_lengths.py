"""The robust policy on jobs of 5 h to 92 h, each start charged to its instance.

Slots are half-hours and a start takes 12 minutes. One GPU on the series of `cant_be_late.py`, with
work for half of the slots to the deadline; at 5 h also eight GPUs on the markets of the other
figures. Value and ending are a job's defaults: nothing is left of it at 1.5 d. A cell is mean
utility / mean utility of the offline optimum on the same jobs. Forecasts are the Markov chain's.
"""

from collections.abc import Mapping, Sequence

import polars as pl
from rich.console import Console
from scipy import stats

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.numerics.estimates import ratio_of
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.spot import InstanceStart, Policy, Robust, SpotFirst, SpotJob, UniformProgress
from auctune.spot.forecasts import ForecastTable, MarkovChain
from cant_be_late import Series, generated, recorded
from spot_harness.options import Figure, Options, main
from spot_harness.trials import Trials

NAME = "job_lengths"
TITLE = "Jobs of 5 h to 92 h: utility / optimum"
SLOT_SECONDS, START_SLOTS = 1800.0, 0.4
HOURS = (5, 18, 70, 92)
MANY_GPUS = 8
MECHANISMS: Mapping[str, Policy] = {
    "UP": UniformProgress(),
    "MSU": SpotFirst(),
    "robust": Robust(),
    "robust(risk=0.05)": Robust(risk=0.05),
    "robust(risk=1)": Robust(risk=1.0),
}
_SLACK = 1e-9


def job(hours: int, num_gpus: int) -> SpotJob:
    """Return a job whose work is half of what its GPUs can do by the deadline."""
    slots = round(hours * 3600 / SLOT_SECONDS)
    return SpotJob(
        workload=slots * num_gpus / 2,
        deadline=slots,
        n_max=num_gpus,
        overhead=InstanceStart(START_SLOTS),
    )


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market, length and mechanism."""
    series = generated(options.seed, 1 if options.quick else 20, SLOT_SECONDS)
    series += recorded(options.data, SLOT_SECONDS) if options.data is not None else []
    cells = [(one, hours, 1) for one in series for hours in HOURS]
    cells += [(Series(one), HOURS[0], MANY_GPUS) for one in options.all_markets()]
    rows: list[Mapping[str, float | str | None]] = []
    for one, hours, num_gpus in cells[:: 3 if options.quick else 1]:
        with console.status(f"{NAME}: {one.markets.name}, {hours} h"):
            trials = one.trials(job(hours, num_gpus), options.jobs, options.seed)
            rows += _measured(f"{one.markets.name}, {num_gpus} GPU", hours, trials)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), notes(frame))
    return frame


def _measured(
    market: str, hours: int, trials: Trials
) -> Sequence[Mapping[str, float | str | None]]:
    optimum = trials.optimum()
    rows: list[Mapping[str, float | str | None]] = []
    count, deadline = len(trials.jobs), trials.jobs[0].deadline
    made = trials.predicted(lambda _: MarkovChain(), deadline - 1)
    for name, policy in MECHANISMS.items():
        forecasts: Sequence[ForecastTable | None] = [None] * count
        outcome = trials.outcome([policy], made if policy.horizon is None else forecasts)
        ratio = ratio_of(outcome.utility[:, 0], optimum)
        late = int((outcome.finish[:, 0] > deadline + _SLACK).sum())
        interval = stats.binomtest(late, count).proportion_ci()
        rows.append(
            {
                "market": market,
                "hours": hours,
                "mechanism": name,
                "jobs": count,
                "ratio": None if ratio is None else ratio.value,
                "half": None if ratio is None else ratio.half_width,
                "late": late / count,
                "late_low": float(interval.low),
                "late_high": float(interval.high),
            }
        )
    return rows


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
    lines = [f"{frame['jobs'][0]} jobs in each cell"]
    for name in ("robust", "robust(risk=0.05)"):
        own = frame.filter(pl.col("mechanism") == name)
        least = own["ratio"].min()
        assert isinstance(least, float)
        lines.append(
            f"{name}: at 97% of the optimum or more in {own.filter(pl.col('ratio') >= 0.97).height}"
            f" of {own.height} cells, at least {least:.1%}; late in "
            f"{round((own['late'] * own['jobs']).sum())} of {own['jobs'].sum()} jobs"
        )
    return lines


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
