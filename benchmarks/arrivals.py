"""Goodness of fit of arrival processes that are fitted to a job log.

    python benchmarks/arrivals.py LOG [--start-day DAY --days DAYS] [--svg CHART.svg]

| process | components |
| --- | --- |
| Poisson | the daily curve |
| waves | a varying rate (log-Gaussian Cox), on scales from minutes to days |
| bursts | batches of jobs spread over minutes to hours (Neyman-Scott) |
| bursts and waves | bursts of minutes, waves of hours and days: the defaults of `bursty_fit` |
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from auctune.charts.curves import series_chart
from auctune.charts.render import to_svg
from auctune.numerics.goodness_of_fit import GoodnessOfFit
from auctune.numerics.rng import stream
from auctune.sim.traces import JobLog, read_job_log
from auctune.sim.traces.job_log import DAY_SECONDS
from auctune.sim.workloads.arrival_statistics import SLOT_SECONDS, compare_with_log
from auctune.sim.workloads.arrivals import BurstyArrivals, BurstyParams
from auctune.sim.workloads.bursty_fit import FitParams, fit

LADDER = (60.0, 180.0, 600.0, 1800.0, 7200.0, 43_200.0)
PROCESSES: Mapping[str, FitParams] = {
    "Poisson": FitParams(wave_seconds=(), burst_seconds=()),
    "waves": FitParams(wave_seconds=(*LADDER, 172_800.0), burst_seconds=()),
    "bursts": FitParams(wave_seconds=(), burst_seconds=LADDER),
    "bursts and waves": FitParams(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--start-day", type=float, default=0.0)
    parser.add_argument("--days", type=float)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--svg", type=Path, help="file for a chart of arrivals per slot")
    parser.add_argument("--svg-days", type=int, default=7, help="days in the chart")
    args = parser.parse_args()
    log = read_job_log(args.log)
    log = log.window(args.start_day, args.days or log.num_days - args.start_day)
    fitted = {name: fit(log, params) for name, params in PROCESSES.items()}
    show({name: compare_with_log(log, process, runs=args.runs) for name, process in fitted.items()})
    print(fitted["bursts and waves"])
    if args.svg:
        args.svg.write_text(chart(log, fitted, args.svg_days), encoding="utf-8")


def show(fits: Mapping[str, tuple[GoodnessOfFit, ...]]) -> None:
    """Print figures of the log, and mean and middle 80% of the runs of each process."""
    table = Table()
    table.add_column("figure")
    for heading in ("log", *fits):
        table.add_column(heading, justify="right")
    for rows in zip(*fits.values(), strict=True):
        cells = [f"{row.mean:,.2f} ({row.low:,.2f} to {row.high:,.2f})" for row in rows]
        table.add_row(rows[0].figure, f"{rows[0].observed:,.2f}", *cells)
    Console(width=160).print(table)


def chart(log: JobLog, fitted: Mapping[str, BurstyParams], days: int) -> str:
    """Return a chart of arrivals per slot in the log and in processes, as SVG."""
    slots = days * round(DAY_SECONDS / SLOT_SECONDS)
    counts = {"the log": log.counts(slots, SLOT_SECONDS).tolist()}
    for name in ("bursts and waves", "Poisson"):
        arrivals = BurstyArrivals(fitted[name])
        drawn = arrivals.draw(slots, SLOT_SECONDS, stream(0, "chart", name))
        counts[name] = np.bincount(drawn.slot, minlength=slots).tolist()
    return to_svg(series_chart(counts, SLOT_SECONDS, "bids a slot", square_root=True))


if __name__ == "__main__":
    main()
