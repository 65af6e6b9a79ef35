"""A large market on one core: a week of a million bids, and growth of the time per decision.

    python benchmarks/scale.py [--quick] [--out FOLDER]

| what | how |
| --- | --- |
| a week | 1,000 nodes, 1,008 slots of 10 minutes, about 1,000,000 random bids, from a parquet file to parquet files of decisions, with metrics; a process with one thread, pinned to one core, after compilation; wall clock and CPU time from the first row read to the last row written |
| nodes | bids in proportion to nodes, 48 slots, so that the load per node is constant; mean time per decision, without starts of slots |
| window | 200 nodes, a day; deadlines extended so that windows are a multiple as long; mean time per decision |

`--quick` is a tenth of the week, and one run of each size. Chart and table of growth are written to
FOLDER (`out`) as growth.svg, growth.png and growth.json.
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

from auctune.charts import Growth, growth_chart, to_png, to_svg
from auctune.registry import mechanisms
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
# Learned prices are updated at starts of slots, whose time is not counted here.
SETTINGS = {"pricing": "exponential"}
NODES = (50, 100, 200, 400, 800, 1600)
WINDOWS = (1, 2, 4, 8, 16)
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ONE_THREAD = dict.fromkeys(THREADS, "1")


def measure_week(tasks: Path) -> dict[str, Any]:
    """Simulate the market of a task file in this process; return metrics, seconds and memory."""
    market = read_market(tasks)
    first = next(stream_tasks(tasks, market.cluster))
    warm_up(
        replace(market, tasks=(first,)),
        lambda: mechanisms.build("pdftsp", market.cluster, SETTINGS),
    )
    folder = tasks.with_name(f"decisions-{tasks.name}")
    mechanism = mechanisms.build("pdftsp", market.cluster, SETTINGS)
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
    """Generate a week, and simulate it in a process pinned to one core."""
    tasks = folder / f"{name.replace(' ', '-')}.parquet"
    slots = WEEK.slots // 10 if quick else WEEK.slots
    market, bids = make_stream(replace(WEEK, nodes=CLUSTERS[name], slots=slots))
    write_market(market, bids, tasks)
    command = [sys.executable, __file__, "--measure", str(tasks)]
    one_core = {max(os.sched_getaffinity(0))}
    completed = subprocess.run(
        command,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, one_core),
    )
    figures: dict[str, Any] = json.loads(completed.stdout)
    return figures


def week_table(quick: bool) -> Table:
    table = Table(
        *(
            "nodes",
            "bids",
            "wall s",
            "CPU s",
            "slot starts s",
            "bids/s",
            "p50 us",
            "p99 us",
            "peak GB",
        ),
        title="A week on one core",
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in CLUSTERS:
            week = run_week(name, quick, Path(folder))
            table.add_row(
                f"{week['nodes']:,}, {name}",
                f"{week['bids']:,}",
                f"{week['seconds']:.1f}",
                f"{week['cpu_seconds']:.1f}",
                f"{week['learning_seconds']:.1f}",
                f"{week['bids'] / week['seconds']:,.0f}",
                f"{week['p50'] * 1e6:.1f}",
                f"{week['p99'] * 1e6:.1f}",
                f"{week['memory_gb']:.2f}",
            )
    table.add_section()
    table.add_row("goal", "", f"<= {SECONDS_GOAL:.0f}", *[""] * 5, f"<= {MEMORY_GOAL_GB:.0f}")
    return table


def mean_seconds(instance: Instance, runs: int) -> float:
    """Return the mean time per decision; the median over runs."""
    warm_up(instance, lambda: mechanisms.build("pdftsp", instance.cluster, SETTINGS))
    means = []
    for _ in range(runs):
        result = simulate(instance, mechanisms.build("pdftsp", instance.cluster, SETTINGS))
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
    """Return the bids of the first half of a day, with windows `factor` times as long."""
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
    table = Table(
        "size", "", "mean us", "size x", "time x", title="Growth of the time per decision"
    )
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
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the week, one run per size"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of chart and table")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure_week(options.measure)))
        return
    console = Console(width=120)
    runs = 1 if options.quick else 3
    panels = (by_nodes(runs), by_window(runs))
    write_growth(panels, options.out)
    console.print(growth_table(panels))
    console.print(week_table(options.quick))


if __name__ == "__main__":
    main()
