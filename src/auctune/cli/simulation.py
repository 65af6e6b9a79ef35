"""Simulations of `auctune simulate`: run the mechanisms, write the files, print the figures."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from auctune.auction.search.schedule_search import find_best
from auctune.cli._support.progress import ProgressBars, warn_compiling
from auctune.cli._support.tables import make_console
from auctune.cli.workload import STREAM_SUFFIX
from auctune.domain import Cluster, Task
from auctune.domain.errors import InputError
from auctune.files.atomic import AtomicFiles
from auctune.files.json_file import write_json
from auctune.registry import mechanisms
from auctune.sim.bound import WelfareBound, welfare_bound
from auctune.sim.comparison import Entry, Played, build, comparison_json, play
from auctune.sim.comparison_charts import chart_paths, render_charts
from auctune.sim.engine import warm_up
from auctune.sim.instance import Instance
from auctune.sim.instance_file import read_instance
from auctune.sim.metrics import SimulationReport
from auctune.sim.outages import Outage, Outages
from auctune.sim.result_file import write_decisions
from auctune.sim.stream.run import DecisionParts, run_stream

_MAX_DAYS = 14
# Shorter times at the starts of slots are not learning.
_MIN_LEARNING_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """Files to write; `decisions` is a folder in a comparison, with a file per mechanism."""

    report: Path
    decisions: Path | None
    charts: Path | None


@dataclass(frozen=True, slots=True)
class Simulation:
    """A market, and the mechanisms to run on it.

    Attributes:
        market: without its tasks if they are streamed.
        outages: of the market's nodes.
        history: bids of earlier days, the earliest first.
        bound_kind: a kind of `auctune.sim.bound`.
    """

    market: Instance
    entries: Sequence[Entry]
    outages: Sequence[Outage]
    history: Sequence[Sequence[Task]]
    bound_kind: str
    compared: bool


def run_simulation(simulation: Simulation, paths: OutputPaths) -> None:
    """Run the mechanisms, write all files or none, and print the figures."""
    decision_files = _decision_files(simulation, paths.decisions)
    chart_files = [] if paths.charts is None else chart_paths(paths.charts)
    files_in_order = [*decision_files, paths.report, *chart_files]
    folders = (paths.charts, paths.decisions if simulation.compared else None)
    with _make_folders(folders), AtomicFiles(files_in_order) as opened:
        files = dict(zip(files_in_order, opened, strict=True))
        played, bound = _play(simulation)
        _write_report(simulation, played, bound, files[paths.report])
        if decision_files:
            for path, one in zip(decision_files, played, strict=True):
                write_decisions(one.result, files[path])
        if chart_files:
            for path, content in zip(chart_files, render_charts(played, bound), strict=True):
                files[path].buffer.write(content)
    if simulation.compared:
        print_comparison(played, bound)
    else:
        print_figures(played[0].entry.label, played[0].report)


def run_streamed(
    simulation: Simulation, bids: Iterator[Task], decisions: Path, report: Path
) -> None:
    """Run one mechanism on a stream of bids, and write each decision as it is made.

    Neither bids nor decisions are held in memory.
    """
    (entry,), market = simulation.entries, simulation.market
    warn_compiling(find_best, "the auction's")
    first = list(itertools.islice(bids, 1))
    outages = Outages(market.cluster, simulation.outages) if simulation.outages else None
    with AtomicFiles([report]) as (report_file,), ProgressBars() as bars:
        warm_up(replace(market, tasks=tuple(first)), lambda: build(entry, market))
        with DecisionParts(decisions) as parts:
            figures = run_stream(
                market,
                itertools.chain(first, bids),
                build(entry, market, simulation.history),
                parts,
                outages=outages,
                watch=bars.stage(entry.label),
            )
        write_json(figures.to_json(), report_file)
    print_figures(entry.label, figures)


def is_streamed(instance: Path | None, decisions: Path | None) -> bool:
    """Return whether tasks are read, or decisions written, as a stream."""
    return any(path is not None and path.suffix == STREAM_SUFFIX for path in (instance, decisions))


def check_stream(instance: Path | None, decisions: Path | None) -> None:
    """Refuse a stream of tasks whose file is missing, or without a stream of decisions."""
    if decisions is None or decisions.suffix != STREAM_SUFFIX:
        raise InputError(
            "--decisions",
            f"{decisions}",
            f"a folder named *{STREAM_SUFFIX}, for bids that are streamed",
        )
    if instance is not None and instance.suffix == STREAM_SUFFIX and not instance.exists():
        raise InputError(str(instance), "does not exist", "a file of tasks")


def read_history(paths: Sequence[Path], cluster: Cluster) -> list[Sequence[Task]]:
    """Read the bids of earlier days, the earliest day first, each in order of arrival."""
    days: list[Sequence[Task]] = []
    for path in paths:
        earlier = read_instance(path)
        if earlier.cluster.slot_seconds != cluster.slot_seconds:
            raise InputError(
                f"{path}: slot_seconds",
                f"{earlier.cluster.slot_seconds:g}",
                f"{cluster.slot_seconds:g}, as in the simulated market",
            )
        for index, task in enumerate(earlier.tasks):
            _check_node_types(f"{path}: tasks[{index}]", task, cluster)
        days.append(earlier.in_order())
    return days


def require_learning_mechanism(entries: Sequence[Entry]) -> None:
    """Refuse `--history` if no mechanism learns from it."""
    if not any(mechanisms.learns(one.mechanism, one.settings) for one in entries):
        names = " or ".join(one.label for one in entries)
        raise InputError(
            "--history",
            f"{names} with these settings cannot learn from earlier days",
            "a mechanism that can, such as pdftsp with pricing=learned",
        )


def _play(simulation: Simulation) -> tuple[list[Played], WelfareBound]:
    market = simulation.market
    warn_compiling(find_best, "the auction's")
    with ProgressBars() as bars:
        bars.stage("bound")
        try:
            bound = welfare_bound(simulation.bound_kind, market)
        except InputError as error:
            raise error.at(f"--{error.place}") from None
        played = [
            play(
                entry,
                market,
                bound,
                history=simulation.history,
                watch=bars.stage(entry.label, len(market.tasks)),
                outages=simulation.outages,
            )
            for entry in simulation.entries
        ]
    return played, bound


def _write_report(
    simulation: Simulation, played: Sequence[Played], bound: WelfareBound, file: TextIO
) -> None:
    if simulation.compared:
        write_json(comparison_json(played, bound), file)
    else:
        write_json(played[0].report.to_json(), file)


def _decision_files(simulation: Simulation, decisions: Path | None) -> list[Path]:
    if decisions is None:
        return []
    if not simulation.compared:
        return [decisions]
    # Some file systems refuse a colon in a name.
    names = [entry.label.replace(":", ",") for entry in simulation.entries]
    return [decisions / f"{name}.jsonl" for name in names]


@contextlib.contextmanager
def _make_folders(folders: Sequence[Path | None]) -> Iterator[None]:
    """Create missing folders; remove them again on an error."""
    created: list[Path] = []
    try:
        for folder in folders:
            if folder is not None and not folder.is_dir():
                _make_folder(folder)
                created.append(folder)
        yield
    except BaseException:
        for folder in created:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir()
    except OSError as error:
        raise InputError(
            str(folder),
            f"cannot be created ({error.strerror})",
            "a folder, or a new one in an existing folder",
        ) from None


def _check_node_types(place: str, task: Task, cluster: Cluster) -> None:
    for field, by_type in (
        ("throughput", task.throughput),
        ("operating_cost", task.operating_cost or {}),
    ):
        for name in by_type:
            if name not in cluster.node_types:
                types = ", ".join(cluster.node_types)
                raise InputError(
                    f"{place}.{field}.{name}",
                    "is not a node type of this market",
                    f"one of {types}",
                )


def print_figures(label: str, figures: SimulationReport) -> None:
    """Print one mechanism's figures, a line each."""
    table = Table(title=label, show_header=False, title_justify="left")
    table.add_column("name")
    table.add_column("figure", justify="right")
    for row in _rows(figures):
        table.add_row(*row)
    Console().print(table)


def print_comparison(played: Sequence[Played], bound: WelfareBound) -> None:
    """Print a column of figures per mechanism, then the bound."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for one in played:
        # Settings go under the name, to keep the column narrow.
        name = one.entry.label.replace(":", "\n")
        table.add_column(name, justify="right", overflow="fold")
    for rows in zip(*(_compared(one.report) for one in played), strict=True):
        table.add_row(rows[0][0], *(figure for _, figure in rows))
    console = make_console(table)
    console.print(table)
    console.print(_summary(bound, played[0].report), highlight=False, soft_wrap=True)


def _rows(figures: SimulationReport) -> Iterator[tuple[str, str]]:
    yield "tasks", f"{figures.num_tasks:,}"
    yield "admitted", f"{figures.num_admitted:,}"
    for name in ("welfare", "revenue", "vendor_cost", "operating_cost"):
        yield name.replace("_", " "), f"{getattr(figures, name):,.4f}"
    if figures.bound.value is not None:
        yield f"bound ({_bound_name(figures)})", f"{figures.bound.value:,.4f}"
        yield "welfare / bound", _share(figures.bound.ratio)
        for day, one in enumerate(figures.by_day[:_MAX_DAYS], start=1):
            yield f"welfare / bound, day {day}", _share(one.ratio)
    if figures.outages is not None:
        yield "plans changed by outages", f"{figures.outages.num_replanned:,}"
        yield "refunded tasks", f"{figures.outages.num_refunded:,}"
        yield "refunds", f"{figures.outages.refunds:,.4f}"
    for name, by_slot in (
        ("compute", figures.utilization.compute),
        ("memory", figures.utilization.memory),
    ):
        yield f"{name} used", _mean(by_slot)
    seconds = figures.decision_seconds
    if seconds.p50 is not None and seconds.p99 is not None:
        yield "decision time, median", f"{seconds.p50 * 1e6:,.0f} us"
        yield "decision time, 99%", f"{seconds.p99 * 1e6:,.0f} us"
    if figures.learning_seconds > _MIN_LEARNING_SECONDS:
        yield "learning time", _time(figures.learning_seconds)


def _bound_name(figures: SimulationReport) -> str:
    bound = figures.bound
    name = f"{bound.kind}, the optimum" if bound.exact else f"{bound.kind}"
    if bound.kind == "milp" and not bound.exact:
        name += ", search stopped"
    return name if figures.outages is None else f"{name}, without outages"


def _compared(figures: SimulationReport) -> Iterator[tuple[str, str]]:
    yield "welfare", f"{figures.welfare:,.0f}"
    if figures.bound.value is not None:
        yield "of bound", _share(figures.bound.ratio)
        for day, one in enumerate(figures.by_day[:_MAX_DAYS], start=1):
            yield f"  on day {day}", _share(one.ratio)
    yield "revenue", f"{figures.revenue:,.0f}"
    yield "admitted", f"{figures.num_admitted:,}"
    if figures.outages is not None:
        yield "plans changed", f"{figures.outages.num_replanned:,}"
        yield "refunded", f"{figures.outages.num_refunded:,}"
    yield "compute used", _mean(figures.utilization.compute)
    yield "memory used", _mean(figures.utilization.memory)
    yield "decision, median", _time(figures.decision_seconds.p50)
    yield "decision, 99%", _time(figures.decision_seconds.p99)
    learning = figures.learning_seconds
    yield "learning", _time(learning if learning > _MIN_LEARNING_SECONDS else None)


def _summary(bound: WelfareBound, figures: SimulationReport) -> str:
    tasks = f"{figures.num_tasks:,} tasks"
    if bound.value is None:
        return tasks
    name = "the optimum" if bound.exact else "an upper bound on welfare"
    if bound.kind == "milp" and not bound.exact:
        name += "; the search for the optimum was stopped"
    if figures.outages is not None:
        name += ", without outages"
    return f"{tasks}; bound ({bound.kind}): {bound.value:,.0f}, {name}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _mean(by_slot: Sequence[float]) -> str:
    return f"{sum(by_slot) / len(by_slot):.1%}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds * 1e6:,.0f} us"
