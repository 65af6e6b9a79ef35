"""Runs of `auctune simulate`: play a market, write all files or none, show the figures."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import typer

from auctune import registry
from auctune.cli._support.progress import ProgressBars
from auctune.cli.simulation_tables import print_comparison, print_figures
from auctune.cli.workload import STREAM_SUFFIX
from auctune.domain import Cluster, Task
from auctune.domain.errors import InputError
from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.sim.atomic_file import AtomicFiles
from auctune.sim.bound import WelfareBound, welfare_bound
from auctune.sim.comparison import Contender, Played, build, comparison_json, play
from auctune.sim.comparison_charts import chart_paths, render_charts
from auctune.sim.instance import Instance
from auctune.sim.instance_file import read_instance
from auctune.sim.outages import Outage, Outages
from auctune.sim.result_file import write_decisions, write_json
from auctune.sim.stream.decision_parts import DecisionParts
from auctune.sim.stream.run import run_stream
from auctune.sim.warm_up import warm_up


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """Files and folders to write.

    Attributes:
        report: file of the figures.
        decisions: a file, or in a comparison a folder with a file per mechanism; `None`: not
            written.
        charts: a folder; `None`: no charts.
    """

    report: Path
    decisions: Path | None
    charts: Path | None


@dataclass(frozen=True, slots=True)
class Simulation:
    """A market, and the mechanisms to run on it.

    Attributes:
        market: without its tasks if they are streamed.
        contenders: one mechanism, or several to compare.
        outages: of the market's nodes.
        history: bids of earlier days, the earliest first.
        bound_kind: a kind of `auctune.sim.bound`.
        compared: whether the report and the table are those of a comparison.
    """

    market: Instance
    contenders: Sequence[Contender]
    outages: Sequence[Outage]
    history: Sequence[Sequence[Task]]
    bound_kind: str
    compared: bool


def run_simulation(simulation: Simulation, paths: OutputPaths) -> None:
    """Run the mechanisms, write all files or none, and show the figures.

    Raises:
        InputError: if a file cannot be written, or the market is too large for the bound.
    """
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
        print_figures(played[0].contender.label, played[0].report)


def run_streamed(
    simulation: Simulation, bids: Iterator[Task], decisions: Path, report: Path
) -> None:
    """Run one mechanism on a stream of bids, writing decisions as they are made.

    Neither bids nor decisions are held in memory.

    Raises:
        InputError: for an invalid task when it is reached; the parts written so far stay.
    """
    (contender,), market = simulation.contenders, simulation.market
    _warn_compiling()
    first = list(itertools.islice(bids, 1))
    outages = Outages(market.cluster, simulation.outages) if simulation.outages else None
    with AtomicFiles([report]) as (report_file,), ProgressBars() as bars:
        warm_up(replace(market, tasks=tuple(first)), lambda: build(contender, market))
        with DecisionParts(decisions) as parts:
            figures = run_stream(
                market,
                itertools.chain(first, bids),
                build(contender, market, simulation.history),
                parts,
                outages=outages,
                watch=bars.stage(contender.label),
            )
        write_json(figures.to_json(), report_file)
    print_figures(contender.label, figures)


def is_streamed(instance: Path | None, decisions: Path | None) -> bool:
    """Whether tasks are read, or decisions written, as a stream."""
    return any(path is not None and path.suffix == STREAM_SUFFIX for path in (instance, decisions))


def check_stream(instance: Path | None, decisions: Path | None) -> None:
    """Refuse a stream of tasks without a stream of decisions, or without its file.

    Raises:
        InputError: naming the option, or the file that is missing.
    """
    if decisions is None or decisions.suffix != STREAM_SUFFIX:
        raise InputError(
            "--decisions",
            f"{decisions}",
            f"a folder named *{STREAM_SUFFIX}, for bids that are streamed",
        )
    if instance is not None and instance.suffix == STREAM_SUFFIX and not instance.exists():
        raise InputError(str(instance), "is not there", "a file of tasks")


def read_history(paths: Sequence[Path], cluster: Cluster) -> list[Sequence[Task]]:
    """Read the bids of earlier days, each day in order of arrival.

    Args:
        paths: instance files, the earliest day first.
        cluster: of the market to come.

    Raises:
        InputError: naming the file, if its slots have another length, or a bid names a node type
            that this market lacks.
    """
    days: list[Sequence[Task]] = []
    for path in paths:
        earlier = read_instance(path)
        if earlier.cluster.slot_seconds != cluster.slot_seconds:
            raise InputError(
                f"{path}: slot_seconds",
                f"{earlier.cluster.slot_seconds:g}",
                f"{cluster.slot_seconds:g}, as in the market to come",
            )
        for index, task in enumerate(earlier.tasks):
            _check_node_types(f"{path}: tasks[{index}]", task, cluster)
        days.append(earlier.in_order())
    return days


def require_learning_mechanism(contenders: Sequence[Contender]) -> None:
    """Refuse `--history` if no mechanism would learn from it.

    Raises:
        InputError: naming the option.
    """
    if not any(registry.learns(one.mechanism, one.settings) for one in contenders):
        names = " or ".join(one.label for one in contenders)
        raise InputError(
            "--history",
            f"nothing is learned from earlier days by {names} with these settings",
            "a mechanism that does, such as pdftsp with pricing=learned",
        )


def _play(simulation: Simulation) -> tuple[list[Played], WelfareBound]:
    market = simulation.market
    _warn_compiling()
    with ProgressBars() as bars:
        bars.stage("bound")
        try:
            bound = welfare_bound(simulation.bound_kind, market)
        except InputError as error:
            raise InputError(f"--{error.place}", error.found, error.expected) from None
        played = [
            play(
                contender,
                market,
                bound,
                history=simulation.history,
                watch=bars.stage(contender.label, len(market.tasks)),
                outages=simulation.outages,
            )
            for contender in simulation.contenders
        ]
    return played, bound


def _warn_compiling() -> None:
    if not kernels_are_compiled():
        typer.echo(COMPILING, err=True)


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
    # Not every file system allows a colon in a name.
    names = [contender.label.replace(":", ",") for contender in simulation.contenders]
    return [decisions / f"{name}.jsonl" for name in names]


@contextlib.contextmanager
def _make_folders(folders: Sequence[Path | None]) -> Iterator[None]:
    """Make folders that do not exist; remove them again on an error."""
    made: list[Path] = []
    try:
        for folder in folders:
            if folder is not None and not folder.is_dir():
                _make_folder(folder)
                made.append(folder)
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir()
    except OSError as error:
        raise InputError(
            str(folder),
            f"cannot be made ({error.strerror})",
            "a folder, or a new one in a folder that is there",
        ) from None


def _check_node_types(place: str, task: Task, cluster: Cluster) -> None:
    for field, by_type in (
        ("throughput", task.throughput),
        ("operating_cost", task.operating_cost or {}),
    ):
        for name in by_type:
            if name not in cluster.node_types:
                known = ", ".join(cluster.node_types)
                raise InputError(
                    f"{place}.{field}.{name}", "is no node type of this market", f"one of {known}"
                )
