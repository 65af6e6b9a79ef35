"""The auction: time per decision, and welfare of a day.

    python benchmarks/auction.py [--quick]

| what | how |
| --- | --- |
| time per decision | every bid of a synthetic day (144 slots, 80 arrivals per slot (Poisson), 200 nodes, quotes of 10 vendors for every task), after compilation; quantiles over the day, medians of 5 runs |
| CPU time per decision | of the deciding thread, one run; does not depend on the load of the machine |
| a whole day | sum of those times |
| welfare | one day for each setting and mechanism, with bids as values |
"""  # noqa: E501

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console
from rich.table import Table

from auctune.domain import Admission, Task
from auctune.registry import mechanisms
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
    """Seconds per decision, quantiles over the bids of a day; and their sum."""

    p50: float
    p99: float
    day: float


def play(
    name: str, instance: Instance, clock: Callable[[], float] = time.perf_counter
) -> tuple[SimulationReport, float]:
    """Simulate an instance; return its report and the seconds of all decisions."""

    def timed(mechanism: Admission, tasks: Sequence[Task], now: int) -> Answers:
        decisions, learning = [], 0.0
        for task in tasks:
            before = clock()
            mechanism.advance(now)
            start = clock()
            decision = mechanism.offer(task, now)
            decisions.append((decision, clock() - start))
            learning += start - before
        return Answers(decisions, learning)

    mechanism = mechanisms.build(name, instance.cluster)
    result = simulate(instance, mechanism, decide=None if mechanism.by_slot else timed)
    return measure(result), sum(result.decision_seconds)


def median_times(
    mechanism: str, instance: Instance, runs: int, clock: Callable[[], float]
) -> Times:
    """Return medians over `runs` runs."""
    results = [play(mechanism, instance, clock) for _ in range(runs)]
    p50s = [report.decision_seconds.p50 or 0.0 for report, _ in results]
    p99s = [report.decision_seconds.p99 or 0.0 for report, _ in results]
    return Times(
        statistics.median(p50s),
        statistics.median(p99s),
        statistics.median(seconds for _, seconds in results),
    )


def times_table(runs: int) -> Table:
    table = Table("time per decision", "clock", "p50 us", "p99 us", "day s", title="Speed")
    for cluster, nodes in CLUSTERS.items():
        instance = make_instance(replace(DAY, nodes=nodes))
        for mechanism in ("pdftsp", "eft"):
            warm_up(instance, partial(mechanisms.build, mechanism, instance.cluster))
            for name, clock, num_runs in (
                ("wall", time.perf_counter, runs),
                ("CPU", time.thread_time, 1),
            ):
                times = median_times(mechanism, instance, num_runs, clock)
                table.add_row(
                    f"{mechanism}, 200 nodes, {cluster}",
                    name,
                    f"{times.p50 * 1e6:.1f}",
                    f"{times.p99 * 1e6:.1f}",
                    f"{times.day:.2f}",
                )
    table.add_section()
    table.add_row(
        "goal", "wall", f"<= {P50_GOAL * 1e6:.0f}", f"<= {P99_GOAL * 1e6:.0f}", f"<= {DAY_GOAL:.0f}"
    )
    return table


def welfare_table() -> Table:
    names = mechanisms.mechanism_names()
    table = Table("setting", *names, "pdftsp / eft", "pdftsp / ntm", title="Welfare of a day")
    for setting, params in SETTINGS.items():
        instance = make_instance(params)
        welfare = {name: play(name, instance)[0].welfare for name in names}
        table.add_row(
            setting,
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
