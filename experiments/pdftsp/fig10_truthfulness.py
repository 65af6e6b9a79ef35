"""Figure 10: truthfulness: what a bidder gains by bidding anything but its value.

A day is played up to a bidder, who then tries bids from nothing to twice its value, each on a copy
of the market. The critical payment charges the whole cost of the schedule; the paper's (eq. 14)
leaves the operating cost out, so that a value between the two is rejected when it is told and
admitted, at a gain, when it is overstated. Beside the bidders that are drawn, every one of the day
whose price lay a little above its value is asked what it would have gained by bidding all money
that there is; the one that gains most is shown last.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import polars as pl
from rich.console import Console

from auctune.charts.theme import AnyChart
from auctune.domain import Admission, Decision, Task
from auctune.domain.money import LARGEST, STEP, ZERO
from auctune.numerics.rng import stream
from auctune.sim.comparison import build
from auctune.sim.jobs import run_jobs
from harness.market import Setting, draw, setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import CODE, LEARNED, entry
from harness.utility_chart import UtilityCurve, utility_chart

NAME = "fig10_truthfulness"
RULES = {"critical": "critical payment", "paper": "the paper's payment"}
SHOWN, TRIED, STEPS = 3, 40, 40
# How far above the value, as a share of it, a price may lie for the bidder to be asked.
_CLOSE = Decimal("0.02")
SCHEMA = {
    "rule": pl.String,
    "task": pl.String,
    "drawn": pl.Boolean,
    "value": pl.Float64,
    "bid": pl.Float64,
    "admitted": pl.Boolean,
    "utility": pl.Float64,
}


@dataclass(frozen=True, slots=True)
class Misreports:
    """Bids that bidders of the day of a seed could have made, under one rule of payment.

    Attributes:
        setting: the market.
        seed: of its day.
        payment: the rule.
    """

    setting: Setting
    seed: int
    payment: str
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return 30.0

    def key(self) -> dict[str, object]:
        """The market, the seed and the rule."""
        return {**self.setting.key(), "seed": self.seed, "payment": self.payment}

    def run(self) -> Mapping[str, Any]:
        """Rows (task, drawn or not, value, bid, admitted, utility)."""
        day = draw(self.setting, self.seed)
        who = entry(f"{LEARNED}:payment={self.payment}")
        mechanism = build(who, day.market, [day.before])
        tasks = day.market.in_order()
        # The same bidders under each rule, and none before the market has filled up.
        rng = stream(self.seed, "figure 10")
        later = range(len(tasks) // 4, len(tasks))
        drawn = set(rng.choice(later, size=min(TRIED, len(later)), replace=False).tolist())
        rows: list[list[Any]] = []
        for index, task in enumerate(tasks):
            mechanism.advance(task.arrival)
            truth = mechanism.preview(task, task.arrival)
            if index in drawn or _is_close(task, truth):
                bids = _bids(task.bid, truth.price)
                rows += _try(mechanism, task, bids, drawn=index in drawn)
            mechanism.offer(task, task.arrival)
        return {"rows": rows}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    (market,) = options.settings([setting("a day", {})])
    jobs = [Misreports(market, 0, payment) for payment in RULES]
    results = run_jobs(
        jobs, options.cache, workers=options.workers, console=console, fresh=options.fresh
    )
    rows = [
        [job.payment, *row]
        for job, result in zip(jobs, results, strict=True)
        for row in result["rows"]
    ]
    frame = write_data(pl.DataFrame(rows, schema=SCHEMA, orient="row"), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    notes = [
        f"{STEPS} bids and more of each tried; close: all rejected bidders of the day with a "
        f"price at most {_CLOSE:.0%} above the value",
        f"data and charts: {options.out}",
    ]
    show(console, "Figure 10: what misreports gain", table(frame), notes)
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """Utility against the bid, of bidders drawn and of the one that gains most."""
    admitted = frame.filter(pl.col("drawn") & pl.col("admitted"))
    shown = admitted["task"].unique(maintain_order=True).to_list()[:SHOWN]
    curves = [
        curve
        for index, task in enumerate(shown, start=1)
        for curve in _curves(frame, task, f"bidder {index}, drawn")
    ]
    gains = _gains(frame).filter(pl.col("gain") > 0).sort("gain", descending=True)
    if len(gains):
        curves += _curves(frame, gains["task"][0], "the bidder that gains most by a lie")
    return utility_chart(curves)


def table(frame: pl.DataFrame) -> Rows:
    """A row a rule: how many gain by a misreport, and how much at most."""
    gains = _gains(frame)
    rows = []
    for rule, words in RULES.items():
        own = gains.filter(pl.col("rule") == rule)
        cells = [words]
        for drawn in (True, False):
            group = own.filter(pl.col("drawn") == drawn)
            cells.append(f"{(group['gain'] > 0).sum()} of {len(group)}")
        most = own.filter(pl.col("gain") == pl.col("gain").max()).row(0, named=True)
        cells.append(f"{most['gain']:.4f} ({most['gain'] / most['value']:.2%} of the value)")
        rows.append(tuple(cells))
    heads = ("payment", "gain by a lie: drawn", "gain by a lie: close", "greatest gain")
    return Rows(heads, tuple(rows))


def _gains(frame: pl.DataFrame) -> pl.DataFrame:
    """By rule and bidder: the most that a bid gains over the true one."""
    truthful = pl.col("utility").filter(pl.col("bid") == pl.col("value")).first()
    return frame.group_by("rule", "task", "drawn", maintain_order=True).agg(
        # Utilities are exact to four decimals; their difference as a float is not.
        (pl.col("utility").max() - truthful).round(4).alias("gain"),
        pl.col("value").first(),
    )


def _curves(frame: pl.DataFrame, task: str, bidder: str) -> Iterator[UtilityCurve]:
    for rule, words in RULES.items():
        own = frame.filter((pl.col("task") == task) & (pl.col("rule") == rule)).sort("bid")
        own = own.filter(pl.col("bid") <= 2 * pl.col("value"))
        if len(own):
            value = float(own["value"][0])
            yield UtilityCurve(bidder, words, value, own["bid"].to_list(), own["utility"].to_list())


def _is_close(task: Task, decision: Decision) -> bool:
    price = decision.price
    return not decision.admitted and price is not None and price <= task.bid * (1 + _CLOSE)


def _bids(value: Decimal, price: Decimal | None) -> list[Decimal]:
    """From nothing to twice the value, a step to either side of it and of the price, and all."""
    bids = {(2 * value * step / STEPS).quantize(STEP) for step in range(STEPS + 1)}
    for level in (value, value if price is None else price):
        bids |= {max(ZERO, level - STEP), level, level + STEP}
    return sorted({*bids, LARGEST})


def _try(
    mechanism: Admission, task: Task, bids: Sequence[Decimal], *, drawn: bool
) -> Iterator[list[Any]]:
    for bid in bids:
        asked = replace(task, bid=bid)
        decision = mechanism.preview(asked, task.arrival)
        utility = task.bid - decision.payment if decision.admitted else ZERO
        yield [task.id, drawn, float(task.bid), float(bid), decision.admitted, float(utility)]


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
