"""Beyond the paper: prices that learn from earlier days, on the testbed's setting.

Welfare as a share of the linear bound, and the difference to Eris with the default prices on the
same jobs. Seeds are others than those of the figures.
"""

import statistics
from collections.abc import Callable, Sequence

import polars as pl
from rich.console import Console
from rich.progress import Progress

from auctune.charts.estimates import Panel, estimates_chart
from auctune.edge import EdgeJob, Eris, ErisParams, welfare_bound
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import paper_testbed
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.sweep import Sweep, intervals
from edge_harness.learned import Days, KnownDay, displacement_welfare, shadow_welfare
from edge_harness.options import Figure, Options, main
from edge_harness.trials import instance_of

NAME = "learned_prices"
FIRST_SEED, DAYS_BEFORE = 100, 1000
# Each of the figure's seeds stands for so many here: days of ten jobs differ much.
_TIMES = 5
_SCENARIOS = {"shadow": 6, "displacement": 16}


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the comparison; a row a seed and way."""
    rows = []
    number = options.seeds * (1 if options.quick else _TIMES)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("days", total=number)
        for seed in range(FIRST_SEED, FIRST_SEED + number):
            instance = instance_of(paper_testbed(), seed, options)
            bound = welfare_bound(instance.market, instance.in_order())
            for name, welfare in ways(instance, seed, options).items():
                found = {"contender": name, "welfare": welfare(), "bound": bound}
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

    def displacement(days: Days | KnownDay) -> float:
        return displacement_welfare(market, jobs, days, pricing, _SCENARIOS["displacement"])

    def shadow(share: float) -> float:
        days = Days(day, market.slots, seed)
        return shadow_welfare(market, jobs, days, _SCENARIOS["shadow"], share)

    return {
        "Eris": lambda: eris(()),
        "Eris, a day before": lambda: eris(day[0]),
        "shadow prices, a day before": lambda: shadow(1.0),
        "shadow prices of 0.3 of the capacity": lambda: shadow(0.3),
        "displacement, a day before": lambda: displacement(Days(day, market.slots, seed)),
        "displacement, 20 days before": lambda: displacement(Days(before(20), market.slots, seed)),
        "displacement, the day known": lambda: displacement(KnownDay(jobs)),
    }


def table(frame: pl.DataFrame) -> Rows:
    """A row a way: welfare of all seeds over their bounds, the worst seed, and the difference."""
    sweep = Sweep(frame.with_columns(ratio=pl.col("welfare") / pl.col("bound")))
    first, *_ = sweep.contenders
    total, less = sweep.ratios("welfare", "bound"), sweep.leads("ratio", first)
    worst = sweep.frame.group_by("contender").agg(pl.min("ratio"))
    least = dict(worst.iter_rows())
    rows = [
        (
            name,
            f"{total['testbed', name].value:.3f}",
            f"{least[name]:.2f}",
            "" if name == first else less["testbed", name].text("+.3f", -1),
        )
        for name in sweep.contenders
    ]
    heads = ("prices", "welfare / bound", "worst seed", "less Eris, on the same jobs")
    return Rows(heads, tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
