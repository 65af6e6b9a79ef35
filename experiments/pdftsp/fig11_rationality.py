"""Figure 11: individual rationality: no winner pays more than it bid.

Ten winners of a day are drawn and shown; all of them are counted.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts import Bill, payment_chart
from auctune.charts.theme import AnyChart
from auctune.domain import round_money
from auctune.numerics.rng import stream
from auctune.sim.comparison import build
from auctune.sim.engine import simulate
from auctune.sim.jobs import run_jobs
from harness.market import Setting, draw, setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import CODE, LEARNED, entry

NAME = "fig11_rationality"
SHOWN = 10
SCHEMA = {
    "task": pl.String,
    "bid": pl.String,
    "payment": pl.String,
    "vendor_cost": pl.String,
    "operating_cost": pl.String,
    "shown": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Winners:
    """All winners of the day of a seed, money as texts."""

    setting: Setting
    seed: int
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return 8.0

    def key(self) -> dict[str, object]:
        """The market and the seed."""
        return {**self.setting.key(), "seed": self.seed}

    def run(self) -> dict[str, object]:
        """Columns of the winners."""
        day = draw(self.setting, self.seed)
        mechanism = build(entry(LEARNED), day.market, [day.before])
        result = simulate(day.market, mechanism)
        rows = []
        for task, decision in zip(result.tasks, result.decisions, strict=True):
            if decision.schedule is None or decision.value is None:
                continue
            prices = {quote.vendor: quote.price for quote in task.quotes}
            vendor = prices.get(decision.schedule.vendor or "", Decimal(0))
            operating = round_money(float(task.bid - vendor) - decision.value)
            money = (task.bid, decision.payment, vendor, operating)
            rows.append([task.id, *map(str, money)])
        return {"rows": rows}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data."""
    (market,) = options.settings([setting("a day", {})])
    job = Winners(market, seed=0)
    (result,) = run_jobs([job], options.cache, workers=1, console=console, fresh=options.fresh)
    rows = result["rows"]
    rng = stream(0, "figure 11")
    chosen = set(rng.choice(len(rows), size=min(SHOWN, len(rows)), replace=False).tolist())
    frame = pl.DataFrame(
        [[*row, index in chosen] for index, row in enumerate(rows)], schema=SCHEMA, orient="row"
    )
    frame = write_data(frame, options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Figure 11: bids and payments of winners", table(frame), notes)
    return frame


def chart(frame: pl.DataFrame) -> AnyChart:
    """Bids and payments of those drawn, payments by their parts."""
    shown = frame.filter("shown")
    bills = [
        Bill(
            row["task"],
            Decimal(row["bid"]),
            Decimal(row["payment"]),
            Decimal(row["vendor_cost"]),
            Decimal(row["operating_cost"]),
        )
        for row in shown.iter_rows(named=True)
    ]
    return payment_chart(bills, width=720)


def table(frame: pl.DataFrame) -> Rows:
    """Of all winners: how many pay more than they bid, and what share of it they pay."""
    bids = [Decimal(bid) for bid in frame["bid"]]
    paid = [Decimal(payment) for payment in frame["payment"]]
    shares = np.array([float(p / b) for p, b in zip(paid, bids, strict=True)])
    low, middle, high = np.quantile(shares, (0.1, 0.5, 0.9)).tolist()
    more = sum(p > b for p, b in zip(paid, bids, strict=True))
    heads = ("winners", "pay more than they bid", "payment / bid: median", "middle 80%")
    return Rows(
        heads, ((f"{len(frame):,}", f"{more}", f"{middle:.0%}", f"{low:.0%} to {high:.0%}"),)
    )


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
