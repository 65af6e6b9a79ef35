"""A setting with the paper's margins (+49%, +55%, +33%, +23% at d = 10), and how it was found.

The search (`search_margins.py --drawn 80 --near 220 --jobs 100 --seed 6`) chose the market, g,
N_max and a reading of the paper's text on 100 jobs. Here the found law makes other markets, whose
seeds took no part in the search, with more jobs; v stays as found. Beside them stand the two
markets of the other figures, at the v that makes the first margin right, and auctune's own UP and
MSU.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from ranges import Assumed
from spot_harness.margins import (
    LITERAL,
    OURS,
    PAPER,
    Margins,
    OpenSetting,
    literal,
    play_margins,
    value_for,
)
from spot_harness.markets import Markets
from spot_harness.options import Figure, Options, main
from spot_harness.trials import same_job

NAME = "paper_margins"
TITLE = "The paper's margins"
# What the search printed.
FOUND = OpenSetting(
    price_mean=0.6960742786040626,
    price_deviation=0.4377300157454507,
    price_hours=12.229917612226052,
    price_changes=32.051749428834476,
    empty=0.16587315259876131,
    full=0.2793289086408544,
    count_hours=15.897437389598647,
    quick_share=0.28967079681457614,
    daily=0.43938695411075934,
    count_factor=0.75,
    n_max=16,
    hard_factor=2.0,
    value=1.5299772496148172,
)
NEAREST = literal(2, "slot_start")
SEARCHED, HELD_OUT = 6, (101, 102, 103, 104)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a setting and reading."""
    rows = []
    for seed in (SEARCHED, *HELD_OUT):
        with console.status(f"{NAME}: seed {seed}"):
            trials = same_job(FOUND.markets(seed), FOUND.job, options.jobs, seed)
            name = "the search's own market" if seed == SEARCHED else f"its law, seed {seed}"
            readings = (NEAREST, OURS) if seed == HELD_OUT[0] else (NEAREST,)
            margins = play_margins(trials, readings=readings)
            rows += [_row(name, FOUND.value, found, options.jobs) for found in margins]
    for markets in options.all_markets():
        with console.status(f"{NAME}: {markets.name}"):
            value = Assumed().value
            value = value_for(value, _played(markets, value, options)[0])
            margins = _played(markets, value, options)
            rows += [_row(markets.name, value, found, options.jobs) for found in margins]
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [*notes(frame), f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """The paper's margins beside those measured."""
    rows: list[Mapping[str, float | str]] = [
        {"setting": "the paper", "baselines": "its own", **PAPER}
    ]
    rows += list(frame.iter_rows(named=True))
    values = [
        Interval(
            f"{row['setting']}, {row['baselines']}", f"over {baseline}", *[float(row[baseline])] * 3
        )
        for row in rows
        for baseline in PAPER
    ]
    return estimates_chart([Panel("AHAP ahead by", values, "bars", "+.0%")], axis="setting")


def table(frame: pl.DataFrame) -> Rows:
    """A row a setting."""
    heads = (
        "setting",
        "baselines",
        "v / L",
        *(f"AHAP over {baseline}" for baseline in PAPER),
        "AHAP / optimum",
    )
    rows = [("the paper", "its own", "-", *(f"{paper:+.1%}" for paper in PAPER.values()), "-")]
    rows += [
        (
            row["setting"],
            row["baselines"],
            f"{row['value']:.2f}",
            *(f"{row[baseline]:+.1%}" for baseline in PAPER),
            f"{row['ratio']:.1%}",
        )
        for row in frame.iter_rows(named=True)
    ]
    return Rows(heads, tuple(rows))


def notes(frame: pl.DataFrame) -> list[str]:
    """How far the held-out markets are from the paper, and whether baselines come in its order."""
    held_out = frame.filter(
        pl.col("setting").str.starts_with("its law") & (pl.col("baselines") == NEAREST.name)
    )
    means = {baseline: float(held_out[baseline].to_numpy().mean()) for baseline in PAPER}
    gaps = {baseline: 100 * (means[baseline] - paper) for baseline, paper in PAPER.items()}
    shown = ", ".join(
        f"{baseline} {means[baseline]:+.1%} ({gap:+.1f})" for baseline, gap in gaps.items()
    )
    by_lead = sorted(PAPER, key=lambda baseline: means[baseline])
    order = "the paper's" if by_lead == sorted(PAPER, key=PAPER.__getitem__) else "another"
    return [
        f"mean of the {len(held_out)} held-out markets, and points to the paper: {shown}; "
        f"largest gap {max(map(abs, gaps.values())):.1f} points, order of baselines: {order}",
        f"{frame['jobs'][0]} jobs a row, perfect forecasts",
    ]


def _played(markets: Markets, value: float, options: Options) -> list[Margins]:
    job = replace(Assumed(), value=value).job()
    trials = same_job(markets, job, options.jobs, options.seed)
    return play_margins(trials, readings=(LITERAL, NEAREST, OURS))


def _row(setting: str, value: float, found: Margins, jobs: int) -> Mapping[str, float | str]:
    leads = {baseline: found.lead(baseline) for baseline in PAPER}
    ratio = found.utility["AHAP"] / found.optimum
    named: Mapping[str, float | str] = {
        "setting": setting,
        "baselines": found.readings.name,
        "value": value,
    }
    return {**named, **leads, "ratio": ratio, "best": found.best, "jobs": jobs}


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
