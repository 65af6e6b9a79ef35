"""Is there a setting with the paper's margins (+49%, +55%, +33%, +23% at d = 10)?

The paper-like market with counts a twentieth lower and v = 1.8 L, on several seeds; and the two
markets of the other figures, at the v that makes the first margin right. In each with the baselines
as the paper words them ("literal": UP without topping up and without a safety net, MSU that turns
to on-demand in the last slot, AHANP with the line at the slot's end) and with auctune's own.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
from rich.console import Console

from auctune.charts.estimates import Estimate, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from ranges import Assumed
from spot_harness.margins import (
    LITERAL,
    OURS,
    PAPER,
    Margins,
    Readings,
    play_margins,
    value_for,
)
from spot_harness.markets import Markets, paper_like
from spot_harness.options import Figure, Options, main
from spot_harness.trials import same_job

NAME = "paper_margins"
TITLE = "The paper's margins"
# A setting of the search's kind, the other constants as elsewhere.
NEAR = Assumed(value=1.8, counts=0.95)
SEEDS = (0, 1, 2, 3)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a setting."""
    rows = []
    with console.status(NAME):
        for seed in SEEDS:
            near = NEAR.of(paper_like(seed, 5, 1) if options.quick else paper_like(seed))
            for readings in (LITERAL, OURS) if seed == SEEDS[0] else (LITERAL,):
                trials = same_job(near, NEAR.job(), options.jobs, seed)
                found = play_margins(trials, readings=readings)
                rows.append(_row(f"counts x 0.95, seed {seed}", NEAR.value, readings, found))
        for markets in options.all_markets():
            for readings in (LITERAL, OURS):
                value = Assumed().value
                value = value_for(value, _played(markets, value, options, readings))
                found = _played(markets, value, options, readings)
                rows.append(_row(markets.name, value, readings, found))
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """The paper's margins beside those measured."""
    rows: list[Mapping[str, float | str]] = [
        {"setting": "the paper", "baselines": "its own", **PAPER}
    ]
    rows += list(frame.iter_rows(named=True))
    values = [
        Estimate(f"{row['setting']}, {row['baselines']}", f"over {rival}", *[float(row[rival])] * 3)
        for row in rows
        for rival in PAPER
    ]
    return estimates_chart([Panel("AHAP ahead by", values, "bars", "+.0%")], axis="setting")


def table(frame: pl.DataFrame) -> Rows:
    """A row a setting."""
    heads = (
        "setting",
        "baselines",
        "v / L",
        *(f"AHAP over {rival}" for rival in PAPER),
        "AHAP / optimum",
    )
    rows = [("the paper", "its own", "-", *(f"{paper:+.1%}" for paper in PAPER.values()), "-")]
    rows += [
        (
            row["setting"],
            row["baselines"],
            f"{row['value']:.2f}",
            *(f"{row[rival]:+.1%}" for rival in PAPER),
            f"{row['ratio']:.1%}",
        )
        for row in frame.iter_rows(named=True)
    ]
    return Rows(heads, tuple(rows))


def _played(markets: Markets, value: float, options: Options, readings: Readings) -> Margins:
    job = replace(Assumed(), value=value).job()
    trials = same_job(markets, job, options.jobs, options.seed)
    return play_margins(trials, readings=readings)


def _row(
    setting: str, value: float, readings: Readings, found: Margins
) -> Mapping[str, float | str]:
    leads = {rival: found.lead(rival) for rival in PAPER}
    ratio = found.utility["AHAP"] / found.optimum
    named: Mapping[str, float | str] = {
        "setting": setting,
        "baselines": readings.name,
        "value": value,
    }
    return {**named, **leads, "ratio": ratio, "best": found.best}


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
