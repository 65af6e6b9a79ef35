"""What `auctune simulate` does once its options are understood: play, write, show."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import typer

from auctune.cli._support.progress import ProgressBars
from auctune.cli.figures import show_comparison, show_figures
from auctune.domain import Task
from auctune.domain.errors import InputError
from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.sim.atomic_file import AtomicFiles
from auctune.sim.bound import WelfareBound, welfare_bound
from auctune.sim.comparison import Contender, Played, comparison_json, play
from auctune.sim.comparison_charts import chart_paths, render_charts
from auctune.sim.instance import Instance
from auctune.sim.outages import Outage
from auctune.sim.result_file import write_decisions, write_json


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where results go.

    Attributes:
        report: the figures.
        decisions: a file, or a folder with one for each mechanism; none: nowhere.
        charts: a folder; none: no charts.
    """

    report: Path
    decisions: Path | None
    charts: Path | None


@dataclass(frozen=True, slots=True)
class Contest:
    """One market, and who is to play it.

    Attributes:
        market: the market.
        contenders: one, or several to be compared.
        outages: of its nodes.
        history: bids of earlier days, the earliest first.
        bound_kind: of `auctune.sim.bound`.
        compared: whether the report and the table are those of a comparison.
    """

    market: Instance
    contenders: Sequence[Contender]
    outages: Sequence[Outage]
    history: Sequence[Sequence[Task]]
    bound_kind: str
    compared: bool


def hold(contest: Contest, outputs: Outputs) -> None:
    """Play, write all files or none, and show the figures.

    Raises:
        InputError: if a file cannot be written, or the bound is out of reach.
    """
    decision_files = _decision_files(contest, outputs.decisions)
    chart_files = [] if outputs.charts is None else chart_paths(outputs.charts)
    paths = [*decision_files, outputs.report, *chart_files]
    folders = (outputs.charts, outputs.decisions if contest.compared else None)
    with _folders(folders), AtomicFiles(paths) as opened:
        files = dict(zip(paths, opened, strict=True))
        played, bound = _play(contest)
        _write_report(contest, played, bound, files[outputs.report])
        if decision_files:
            for path, one in zip(decision_files, played, strict=True):
                write_decisions(one.result, files[path])
        if chart_files:
            for path, content in zip(chart_files, render_charts(played, bound), strict=True):
                files[path].buffer.write(content)
    if contest.compared:
        show_comparison(played, bound)
    else:
        show_figures(played[0].contender.label, played[0].report)


def _play(contest: Contest) -> tuple[list[Played], WelfareBound]:
    market = contest.market
    if not kernels_are_compiled():
        typer.echo(COMPILING, err=True)
    with ProgressBars() as bars:
        bars.stage("bound")
        try:
            bound = welfare_bound(contest.bound_kind, market)
        except InputError as error:
            raise InputError(f"--{error.place}", error.found, error.expected) from None
        played = []
        for contender in contest.contenders:
            watch = bars.stage(contender.label, len(market.tasks))
            played.append(
                play(
                    contender,
                    market,
                    bound,
                    history=contest.history,
                    watch=watch,
                    outages=contest.outages,
                )
            )
    return played, bound


def _write_report(
    contest: Contest, played: Sequence[Played], bound: WelfareBound, file: TextIO
) -> None:
    if contest.compared:
        write_json(comparison_json(played, bound), file)
    else:
        write_json(played[0].report.to_json(), file)


def _decision_files(contest: Contest, decisions: Path | None) -> list[Path]:
    if decisions is None:
        return []
    if not contest.compared:
        return [decisions]
    # A colon is no part of a file's name everywhere.
    names = [contender.label.replace(":", ",") for contender in contest.contenders]
    return [decisions / f"{name}.jsonl" for name in names]


@contextlib.contextmanager
def _folders(wanted: Sequence[Path | None]) -> Iterator[None]:
    """Folders that are there; those that were not go again if something fails."""
    made: list[Path] = []
    try:
        for folder in wanted:
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
