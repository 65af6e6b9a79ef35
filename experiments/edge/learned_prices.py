"""Beyond the paper: prices that learn from earlier days, on the testbed's setting.

Welfare as a share of the bound with whole finishes, and the difference to Eris with the default
prices on the same jobs. Three rows are no mechanism's: what a day displaces if it is known, what
HiGHS finds for a known day within the time limit, and the bound of the linear program. Seeds are
others than those of the figures, and than those on which anything here was chosen.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import Progress

from auctune.charts.estimates import Panel, estimates_chart
from auctune.edge import EdgeJob, Eris, ErisParams, welfare_bound
from auctune.numerics.arrays import Floats
from auctune.sim.edge.comparison import bound_of
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Sweep, intervals
from edge_harness.learned import (
    Days,
    KnownDay,
    displacement_welfare,
    promised_welfare,
    shadow_welfare,
)
from edge_harness.options import Figure, Options, main
from edge_harness.trials import instance_of

NAME = "learned_prices"
FIRST_SEED, DAYS_BEFORE = 300, 1000
# Each of the figure's seeds stands for so many here: days of ten jobs differ much.
_TIMES = 3
_SCENARIOS, _DAYS = 16, 20
_SHADOW_SCENARIOS = 6
# Most of what HiGHS proves and finds in a minute it has by then.
_SEARCH_SECONDS, _MOVE_SECONDS = 20.0, 10.0


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the comparison; a row a seed and way."""
    rows = []
    number = options.seeds * (1 if options.quick else _TIMES)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("days", total=number)
        for seed in range(FIRST_SEED, FIRST_SEED + number):
            instance = instance_of(paper_testbed(), seed, options)
            jobs = instance.in_order()
            proven = bound_of(instance, "milp", min(options.time_limit, _SEARCH_SECONDS))
            assert proven is not None
            welfare = {name: play() for name, play in ways(instance, seed, options).items()}
            # What a mechanism reached HiGHS could have found.
            welfare["the day known, best found"] = max(proven.reached or 0.0, *welfare.values())
            welfare["the linear program's bound"] = welfare_bound(instance.market, jobs)
            for name, reached in welfare.items():
                found = {"entry": name, "welfare": reached, "bound": proven.value}
                rows.append({"setting": "testbed", "seed": seed, **found})
            progress.advance(bar)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    ratios = Sweep(frame).ratios("welfare", "bound")
    panel = Panel("welfare / bound", intervals(ratios))
    write_chart(estimates_chart([panel], axis=""), options.out, NAME)
    notes = [f"data and charts: {options.out}"]
    show(console, "Prices that learn: welfare / bound", table(frame), notes)
    return frame


def ways(instance: EdgeInstance, seed: int, options: Options) -> dict[str, Callable[[], float]]:
    """Return what computes the welfare of an instance, by name."""
    market, jobs = instance.market, instance.in_order()

    def before(count: int) -> list[tuple[EdgeJob, ...]]:
        """Return the jobs of so many earlier days."""
        return [
            instance_of(paper_testbed(), seed + DAYS_BEFORE * (index + 1), options).in_order()
            for index in range(count)
        ]

    day = before(1)
    worth = statistics.fmean(job.utility(0) for job in day[0])
    pricing = ErisParams(worth=worth).prices(market, 0.0)

    def eris(history: Sequence[EdgeJob]) -> float:
        one = Eris(market, history=history)
        return sum(one.offer(job, job.arrival).utility or 0.0 for job in jobs)

    def displacement(days: Days | KnownDay, average: Callable[..., Floats] = np.mean) -> float:
        return displacement_welfare(market, jobs, days, pricing, _SCENARIOS, average)

    drawn = partial(Days, before(_DAYS), market.slots, seed)
    return {
        "Eris": lambda: eris(()),
        "Eris, a day before": lambda: eris(day[0]),
        "Eris, finishes promised": lambda: promised_welfare(market, jobs, day[0], _MOVE_SECONDS),
        "shadow prices": lambda: shadow_welfare(market, jobs, drawn(), _SHADOW_SCENARIOS),
        "displacement": lambda: displacement(drawn()),
        "displacement, median": lambda: displacement(drawn(), np.median),
        "displacement, the day known": lambda: displacement(KnownDay(jobs)),
    }


def table(frame: pl.DataFrame) -> Rows:
    """A row a way: welfare of all seeds over their bounds, the worst seed, and the difference."""
    sweep = Sweep(frame.with_columns(ratio=pl.col("welfare") / pl.col("bound")))
    first, *_ = sweep.entries
    total, less = sweep.ratios("welfare", "bound"), sweep.leads("ratio", first)
    worst = sweep.frame.group_by("entry").agg(pl.min("ratio"))
    least = dict(worst.iter_rows())
    rows = [
        (
            name,
            f"{total['testbed', name].value:.3f}",
            f"{least[name]:.2f}",
            "" if name == first else less["testbed", name].text("+.3f", -1),
        )
        for name in sweep.entries
    ]
    heads = ("prices", "welfare / bound", "worst seed", "less Eris, on the same jobs")
    return Rows(heads, tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
