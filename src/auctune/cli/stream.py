"""What `auctune simulate` does with a market that is not to be held in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from auctune.cli.workload import SUFFIX
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.domain import Task
    from auctune.sim.comparison import Contender
    from auctune.sim.instance import Instance
    from auctune.sim.outages import Outage


def streams(instance: Path | None, decisions: Path | None) -> bool:
    """Whether tasks are read, or decisions written, as they come."""
    return any(path is not None and path.suffix == SUFFIX for path in (instance, decisions))


def check_stream(instance: Path | None, decisions: Path | None) -> None:
    """Refuse what is read as it comes, and is not to be written so.

    Raises:
        InputError: naming the option, or the file that is missing.
    """
    if decisions is None or decisions.suffix != SUFFIX:
        raise InputError(
            "--decisions", f"{decisions}", f"a folder named *{SUFFIX}, for bids that are streamed"
        )
    if instance is not None and instance.suffix == SUFFIX and not instance.exists():
        raise InputError(str(instance), "is not there", "a file of tasks")


def open_market(instance: Path) -> "tuple[Instance, Iterator[Task]]":
    """The market of a task file, without its tasks, and the tasks."""
    from auctune.sim.stream.task_reader import read_market, stream_tasks

    market = read_market(instance)
    return market, stream_tasks(instance, market.cluster)


def simulate_stream(
    market: "Instance",
    bids: "Iterator[Task]",
    contender: "Contender",
    history: "Sequence[Sequence[Task]]",
    outages: "Sequence[Outage]",
    decisions: Path,
    report: Path,
) -> None:
    """Play, write decisions as they come and the report at the end, and show the figures.

    Raises:
        InputError: for a bad task when it is reached; the parts that were written stay.
    """
    import itertools

    from auctune.cli._support.progress import ProgressBars
    from auctune.cli.figures import show_figures
    from auctune.numerics.jit import COMPILING, kernels_are_compiled
    from auctune.sim.atomic_file import AtomicFiles
    from auctune.sim.comparison import build
    from auctune.sim.outages import Outages
    from auctune.sim.result_file import write_json
    from auctune.sim.stream.decision_parts import DecisionParts
    from auctune.sim.stream.run import run_stream
    from auctune.sim.warm_up import warm_up

    if not kernels_are_compiled():
        typer.echo(COMPILING, err=True)
    first = list(itertools.islice(bids, 1))
    failing = Outages(market.cluster, outages) if outages else None
    with AtomicFiles([report]) as (report_file,), ProgressBars() as bars:
        warm_up(replace(market, tasks=tuple(first)), lambda: build(contender, market))
        with DecisionParts(decisions) as parts:
            figures = run_stream(
                market,
                itertools.chain(first, bids),
                build(contender, market, history),
                parts,
                outages=failing,
                watch=bars.stage(contender.label),
            )
        write_json(figures.to_json(), report_file)
    show_figures(contender.label, figures)
