"""How far the best AHAP is ahead at d = 10, over the constants that the paper does not give.

One constant is changed at a time, and then all of them together. Forecasts are perfect, so that
what is short of the optimum is the policy's own doing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.estimates import Interval, Line, Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import lead_text
from auctune.spot import SpotJob
from spot_harness.margins import PAPER, WORKLOAD, play_margins
from spot_harness.markets import Markets, with_counts, with_price_level
from spot_harness.options import Figure, Options, main
from spot_harness.trials import same_job

NAME = "ranges"
TITLE = "What is assumed: AHAP with perfect forecasts, d = 10"
VALUES, FACTORS, PRICES, COUNTS = (
    (1.1, 1.5, 2.0, 3.0),
    (1.0, 1.5, 2.0),
    (0.3, 0.6, 0.9),
    (0.25, 0.5, 1.0),
)
# With all together there are many settings, each with fewer jobs.
_FEWER = 10
GOAL = 0.95


@dataclass(frozen=True, slots=True)
class Assumed:
    """Constants that the paper does not give.

    Attributes:
        value: v / L.
        factor: g.
        price: mean of the spot price; none: as the market has it.
        counts: spot GPUs are times this.
        n_max: the most GPUs of the job.
    """

    value: float = 1.5
    factor: float = 1.5
    price: float | None = None
    counts: float = 1.0
    n_max: int = 16

    def job(self) -> SpotJob:
        """The paper's job."""
        return SpotJob(
            workload=WORKLOAD,
            deadline=10,
            value=self.value * WORKLOAD,
            hard_factor=self.factor,
            n_max=self.n_max,
        )

    def of(self, markets: Markets) -> Markets:
        """Markets with these prices and counts."""
        priced = markets if self.price is None else with_price_level(markets, self.price)
        return with_counts(priced, self.counts)


def one_at_a_time() -> Iterator[tuple[str, Assumed]]:
    """Settings in which one constant differs."""
    usual = Assumed()
    yield "as elsewhere", usual
    for value in (1.1, 1.25, 2.0, 3.0):
        yield f"v = {value:g} L", replace(usual, value=value)
    for factor in (1.0, 2.0):
        yield f"g = {factor:g}", replace(usual, factor=factor)
    for price in PRICES:
        yield f"mean price {price:g}", replace(usual, price=price)
    for counts in (0.25, 0.5):
        yield f"counts x {counts:g}", replace(usual, counts=counts)
    for n_max in (8, 12):
        yield f"N_max = {n_max}", replace(usual, n_max=n_max)


def together() -> Iterator[tuple[str, Assumed]]:
    """All combinations."""
    for value, factor, price, counts in product(VALUES, FACTORS, PRICES, COUNTS):
        yield "all together", Assumed(value, factor, price, counts)


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a market and setting."""
    rows = []
    combined = list(together())[:: 36 if options.quick else 1]
    for markets in options.all_markets():
        for label, assumed in one_at_a_time():
            with console.status(f"{NAME}: {markets.name}, {label}"):
                rows.append(_row(markets, label, assumed, options.jobs, options.seed))
        for index, (label, assumed) in enumerate(combined):
            with console.status(f"{NAME}: {markets.name}, {index} of {len(combined)}"):
                few = max(2, options.jobs // _FEWER)
                rows.append(_row(markets, label, assumed, few, options.seed))
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    show(console, TITLE, table(frame), [*notes(frame), f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """By how much AHAP is ahead, one constant at a time; leads of 200% and more are left out."""
    panels = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter((pl.col("market") == market) & (pl.col("setting") != "all together"))
        values = [
            Interval(row["setting"], f"over {baseline}", own_lead, own_lead, own_lead)
            for row in own.iter_rows(named=True)
            for baseline in PAPER
            if row[baseline] > 0 and (own_lead := row["AHAP"] / row[baseline] - 1) < 2
        ]
        panels.append(Panel(f"AHAP ahead, {market}", values, "dots", "+.0%", Line(0.0, "equal")))
    return estimates_chart(panels, axis="what is assumed")


def table(frame: pl.DataFrame) -> Rows:
    """A row a setting, then the range over all together."""
    heads = ("what is assumed", "AHAP / optimum", *(f"AHAP over {baseline}" for baseline in PAPER))
    rows: list[tuple[str, ...]] = [
        ("the paper", "-", *(f"{paper:+.0%}" for paper in PAPER.values()))
    ]
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        rows.append((f"{market}:", *("" for _ in heads[1:])))
        rows += [
            (
                row["setting"],
                _share(row["AHAP"], row["optimum"]),
                *(lead_text(row["AHAP"], row[r], "+.0%") for r in PAPER),
            )
            for row in own.filter(pl.col("setting") != "all together").iter_rows(named=True)
        ]
        rows.append(_range(own.filter(pl.col("setting") == "all together")))
    return Rows(heads, tuple(rows))


def notes(frame: pl.DataFrame) -> list[str]:
    """How often AHAP is ahead, and near the optimum."""
    said = []
    for market in frame["market"].unique(maintain_order=True):
        own = frame.filter(pl.col("market") == market)
        ahead = own.filter(
            pl.all_horizontal(pl.col("AHAP") >= pl.col(baseline) for baseline in PAPER)
        )
        near = own.filter(pl.col("AHAP") >= GOAL * pl.col("optimum"))
        said.append(
            f"{market}: AHAP ahead of all in {len(ahead)} of {len(own)} settings, "
            f"at {GOAL:.0%} of the optimum or more in {len(near)}"
        )
    return said


def _row(
    markets: Markets, label: str, assumed: Assumed, num_jobs: int, seed: int
) -> Mapping[str, object]:
    (found,) = play_margins(same_job(assumed.of(markets), assumed.job(), num_jobs, seed))
    return {
        "market": markets.name,
        "setting": label,
        "value": assumed.value,
        "factor": assumed.factor,
        "price": assumed.price,
        "counts": assumed.counts,
        "n_max": assumed.n_max,
        "jobs": num_jobs,
        **found.utility,
        "optimum": found.optimum,
        "best": found.best,
    }


def _share(utility: float, optimum: float) -> str:
    return f"{utility / optimum:.1%}" if optimum > 0 else "-"


def _range(rows: pl.DataFrame) -> tuple[str, ...]:
    """The middle 80%; baselines that have nothing are left out."""
    shares = (rows["AHAP"] / rows["optimum"]).to_list()
    leads = [
        _middle(
            [a / b - 1 for a, b in zip(rows["AHAP"], rows[baseline], strict=True) if b > 0], "+.0%"
        )
        for baseline in PAPER
    ]
    return (f"all together, middle 80% of {len(rows)}", _middle(shares, ".1%"), *leads)


def _middle(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    low, high = np.quantile(values, (0.1, 0.9)).tolist()
    return f"{low:{form}} to {high:{form}}"


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
