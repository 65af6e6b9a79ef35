"""A large market on one core: a week of a million bids, and how decisions grow with its size.

    python benchmarks/scale.py [--quick] [--out FOLDER]

| what | how |
| --- | --- |
| a week | 1,000 nodes, 1,008 slots of 10 minutes, about 1,000,000 bids, drawn by a seed, from a parquet file to parquet files of decisions, figures included; a process of its own with one thread, pinned to one core, kernels compiled before; wall clock and CPU time from the first row read to the last one written |
| nodes | bids in proportion to nodes, 48 slots, so that each node is as busy; mean time to decide, the beginnings of slots not counted |
| window | 200 nodes, a day; each deadline moved so that windows are as many times as long; the same |

`--quick` is a tenth of the week, and one run of each size. The chart and the table of growth go to
FOLDER (`out`), as growth.svg, growth.png and growth.json.
"""  # noqa: E501

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from auctune import registry
from auctune.charts import Growth, growth_chart, to_png, to_svg
from auctune.sim.engine import simulate, warm_up
from auctune.sim.instance import Instance
from auctune.sim.stream.run import DecisionParts, run_stream
from auctune.sim.stream.tasks import read_market, stream_tasks, write_market
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance, make_stream

WEEK = SyntheticParams(nodes={"a100": 1000}, rate=1_000_000 / 1008, slots=1008)
CLUSTERS = {
    "one node type": {"a100": 1000},
    "two node types": {"a100": 500, "a40": 500},
}
SECONDS_GOAL, MEMORY_GOAL_GB = 120.0, 2.0
# Learning is not counted, and its price of a horizon at once is measured elsewhere.
SETTINGS = {"pricing": "exponential"}
NODES = (50, 100, 200, 400, 800, 1600)
WINDOWS = (1, 2, 4, 8, 16)
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ONE_THREAD = dict.fromkeys(THREADS, "1")


def measure_week(tasks: Path) -> dict[str, Any]:
    """Play the market of a task file in this process; its figures, seconds and gigabytes."""
    market = read_market(tasks)
    first = next(stream_tasks(tasks, market.cluster))
    warm_up(
        replace(market, tasks=(first,)),
        lambda: registry.build("pdftsp", market.cluster, SETTINGS),
    )
    folder = tasks.with_name(f"decisions-{tasks.name}")
    mechanism = registry.build("pdftsp", market.cluster, SETTINGS)
    start, cpu_start = time.perf_counter(), time.process_time()
    with DecisionParts(folder) as parts:
        report = run_stream(market, stream_tasks(tasks, market.cluster), mechanism, parts)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "bids": report.num_tasks,
        "nodes": len(market.cluster.nodes),
        "admitted": report.num_admitted,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "learning_seconds": report.learning_seconds,
        "p50": report.decision_seconds.p50,
        "p99": report.decision_seconds.p99,
        "memory_gb": peak_kib * 1024 / 1e9,
    }


def run_week(name: str, quick: bool, folder: Path) -> dict[str, Any]:
    """Draw a week into a file, and play it in a process of its own."""
    tasks = folder / f"{name.replace(' ', '-')}.parquet"
    slots = WEEK.slots // 10 if quick else WEEK.slots
    market, bids = make_stream(replace(WEEK, nodes=CLUSTERS[name], slots=slots))
    write_market(market, bids, tasks)
    command = [sys.executable, __file__, "--measure", str(tasks)]
    one_core = {max(os.sched_getaffinity(0))}
    done = subprocess.run(
        command,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, one_core),
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def week_table(quick: bool) -> Table:
    table = Table(
        *(
            "nodes",
            "bids",
            "wall s",
            "CPU s",
            "beginnings s",
            "bids/s",
            "p50 us",
            "p99 us",
            "peak GB",
        ),
        title="A week on one core",
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in CLUSTERS:
            found = run_week(name, quick, Path(folder))
            table.add_row(
                f"{found['nodes']:,}, {name}",
                f"{found['bids']:,}",
                f"{found['seconds']:.1f}",
                f"{found['cpu_seconds']:.1f}",
                f"{found['learning_seconds']:.1f}",
                f"{found['bids'] / found['seconds']:,.0f}",
                f"{found['p50'] * 1e6:.1f}",
                f"{found['p99'] * 1e6:.1f}",
                f"{found['memory_gb']:.2f}",
            )
    table.add_section()
    table.add_row("goal", "", f"<= {SECONDS_GOAL:.0f}", *[""] * 5, f"<= {MEMORY_GOAL_GB:.0f}")
    return table


def mean_seconds(instance: Instance, runs: int) -> float:
    """The mean time to decide a bid; the median over some runs."""
    warm_up(instance, lambda: registry.build("pdftsp", instance.cluster, SETTINGS))
    means = []
    for _ in range(runs):
        result = simulate(instance, registry.build("pdftsp", instance.cluster, SETTINGS))
        means.append(statistics.fmean(result.decision_seconds))
    return statistics.median(means)


def by_nodes(runs: int) -> Growth:
    seconds = []
    for nodes in NODES:
        params = SyntheticParams(nodes={"a100": nodes}, rate=nodes, slots=48)
        seconds.append(mean_seconds(make_instance(params), runs))
    return Growth("nodes", NODES, seconds)


def by_window(runs: int) -> Growth:
    params = SyntheticParams(nodes={"a100": 200}, rate=160, deadlines="tight", slots=288)
    day = make_instance(params)
    sizes, seconds = [], []
    for factor in WINDOWS:
        stretched = _stretched(day, factor)
        windows = [task.deadline + 1 - task.arrival for task in stretched.tasks]
        sizes.append(round(statistics.fmean(windows), 1))
        seconds.append(mean_seconds(stretched, runs))
    return Growth("slots of a window, mean", sizes, seconds)


def _stretched(day: Instance, factor: int) -> Instance:
    """The bids of the first half, with windows so many times as long."""
    cluster = day.cluster
    tasks = tuple(
        replace(
            task,
            deadline=min(
                task.arrival + factor * (task.deadline + 1 - task.arrival) - 1, cluster.slots - 1
            ),
        )
        for task in day.tasks
        if 2 * task.arrival < cluster.slots
    )
    return Instance(cluster, tasks)


def growth_table(panels: Sequence[Growth]) -> Table:
    table = Table("size", "", "mean us", "size x", "time x", title="Growth of a decision's time")
    for panel in panels:
        for size, seconds in zip(panel.sizes, panel.seconds, strict=True):
            table.add_row(
                panel.what,
                f"{size:g}",
                f"{seconds * 1e6:.1f}",
                f"{size / panel.sizes[0]:.1f}",
                f"{seconds / panel.seconds[0]:.2f}",
            )
        table.add_section()
    return table


def write_growth(panels: Sequence[Growth], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chart = growth_chart(panels)
    (folder / "growth.svg").write_text(to_svg(chart), encoding="utf-8")
    (folder / "growth.png").write_bytes(to_png(chart))
    data = {p.what: dict(zip(map(str, p.sizes), p.seconds, strict=True)) for p in panels}
    (folder / "growth.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the week, one run a size")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of chart and table")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure_week(given.measure)))
        return
    console = Console(width=120)
    runs = 1 if given.quick else 3
    panels = (by_nodes(runs), by_window(runs))
    write_growth(panels, given.out)
    console.print(growth_table(panels))
    console.print(week_table(given.quick))


if __name__ == "__main__":
    main()
