"""The auction's figures to reach, measured on this machine.

    python benchmarks/auction.py [--quick]

| what | how |
| --- | --- |
| time to decide one task | every bid of a synthetic day (144 slots, Poisson 80 a slot, 200 nodes, every task with 10 vendors' quotes), kernels compiled before; quantiles over the day, their medians over 5 runs |
| the same in CPU time | of the deciding thread, in one more run: what is left when others keep the machine busy |
| a whole day | the sum of those times |
| welfare | one day for each setting, the mechanisms side by side; bids stand for values |
"""  # noqa: E501

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console
from rich.table import Table

from auctune import registry
from auctune.domain import Admission, Task
from auctune.sim.engine import Answers, simulate, warm_up
from auctune.sim.instance import Instance
from auctune.sim.metrics import SimulationReport, measure
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance

DAY = SyntheticParams(nodes={"a100": 200}, rate=80, num_vendors=10, needs_vendor=1.0)
CLUSTERS: Mapping[str, Mapping[str, int]] = {
    "one node type": {"a100": 200},
    "two node types": {"a100": 100, "a40": 100},
}
SMALL = SyntheticParams(nodes={"a100": 50})
SETTINGS: Mapping[str, SyntheticParams] = {
    "50 a100, Poisson 30": replace(SMALL, rate=30),
    "50 a100, Poisson 50": SMALL,
    "50 a100, Poisson 80": replace(SMALL, rate=80),
    "50 a100, Poisson 80, tight deadlines": replace(SMALL, rate=80, deadlines="tight"),
    "50 a100, Poisson 80, loose deadlines": replace(SMALL, rate=80, deadlines="loose"),
    "25 a100 + 25 a40, Poisson 50": replace(SMALL, nodes={"a100": 25, "a40": 25}),
}
P50_GOAL, P99_GOAL, DAY_GOAL = 50e-6, 1e-3, 3.0


@dataclass(frozen=True)
class Times:
    """Seconds: quantiles over the bids of a day, and their sum."""

    p50: float
    p99: float
    day: float


def play(
    mechanism: str, instance: Instance, clock: Callable[[], float] = time.perf_counter
) -> tuple[SimulationReport, float]:
    """The figures of one run from an empty market, and the seconds of all its decisions."""

    def timed(made: Admission, tasks: Sequence[Task], now: int) -> Answers:
        decisions, learning = [], 0.0
        for task in tasks:
            before = clock()
            made.advance(now)
            start = clock()
            decision = made.offer(task, now)
            decisions.append((decision, clock() - start))
            learning += start - before
        return Answers(decisions, learning)

    made = registry.build(mechanism, instance.cluster)
    result = simulate(instance, made, decide=None if made.by_slot else timed)
    return measure(result), sum(result.decision_seconds)


def median_times(
    mechanism: str, instance: Instance, runs: int, clock: Callable[[], float]
) -> Times:
    """Medians over `runs` runs."""
    played = [play(mechanism, instance, clock) for _ in range(runs)]
    p50s = [figures.decision_seconds.p50 or 0.0 for figures, _ in played]
    p99s = [figures.decision_seconds.p99 or 0.0 for figures, _ in played]
    return Times(
        statistics.median(p50s),
        statistics.median(p99s),
        statistics.median(seconds for _, seconds in played),
    )


def times_table(runs: int) -> Table:
    table = Table("time to decide", "clock", "p50 us", "p99 us", "day s", title="Speed")
    for what, nodes in CLUSTERS.items():
        instance = make_instance(replace(DAY, nodes=nodes))
        for mechanism in ("pdftsp", "eft"):
            warm_up(instance, partial(registry.build, mechanism, instance.cluster))
            for name, clock, times in (
                ("wall", time.perf_counter, runs),
                ("CPU", time.thread_time, 1),
            ):
                found = median_times(mechanism, instance, times, clock)
                table.add_row(
                    f"{mechanism}, 200 nodes, {what}",
                    name,
                    f"{found.p50 * 1e6:.1f}",
                    f"{found.p99 * 1e6:.1f}",
                    f"{found.day:.2f}",
                )
    table.add_section()
    table.add_row(
        "goal", "wall", f"<= {P50_GOAL * 1e6:.0f}", f"<= {P99_GOAL * 1e6:.0f}", f"<= {DAY_GOAL:.0f}"
    )
    return table


def welfare_table() -> Table:
    names = registry.mechanism_names()
    table = Table("setting", *names, "pdftsp / eft", "pdftsp / ntm", title="Welfare of a day")
    for what, params in SETTINGS.items():
        instance = make_instance(params)
        welfare = {name: play(name, instance)[0].welfare for name in names}
        table.add_row(
            what,
            *(f"{welfare[name]:,.0f}" for name in names),
            *(f"{welfare['pdftsp'] / welfare[name]:.2f}" for name in ("eft", "ntm")),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one run instead of five")
    runs = 1 if parser.parse_args().quick else 5
    console = Console()
    console.print(times_table(runs))
    console.print(welfare_table())


if __name__ == "__main__":
    main()
