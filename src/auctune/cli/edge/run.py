"""`auctune edge run`: train the admitted jobs of an edge market at their sites."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from auctune.cli._support.options import LABEL
from auctune.cli._support.progress import warn_compiling
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError
from auctune.edge import EdgeDecision, EdgePlan
from auctune.edge.search.forward import plan_cost
from auctune.engine.edge.driver import RunEvent, SiteGone, SlotBegun, SlotProgress, run_edge
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.inputs import (
    copies_of,
    copy_inputs,
    has_inputs,
    read_copied_inputs,
    read_inputs,
)
from auctune.engine.edge.state import (
    BidDecided,
    EdgeRunReport,
    EdgeRunState,
    JobRecord,
    JobRefunded,
    JobSlotTrained,
    SiteClosed,
    SlotEnded,
)
from auctune.extras import install_command


def run(
    context: typer.Context,
    instance: Annotated[
        Path | None,
        typer.Argument(
            metavar="INSTANCE", help="The market and its jobs (JSON).", show_default=False
        ),
    ] = None,
    out: NewRunFolder = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Base, rows and settings of the jobs' training (TOML).",
            show_default=False,
        ),
    ] = None,
    resume: Resume = None,
    mechanism: Annotated[
        str, typer.Option(metavar=LABEL, help="The mechanism: eris, with its settings.")
    ] = "eris",
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a Ray cluster with a node per site. Default: this machine.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="Device of workers: cpu or cuda.")
    ] = "cpu",
) -> None:
    """Decide on bids, and train adapters at sites.

    Sites are all on this machine, or nodes of a Ray cluster with --ray. A slot lasts as long as its
    work. Resume a run that was stopped or killed with --resume. If a site fails, the jobs of that
    site are replanned, or refunded.
    """
    required: dict[str, tuple[Path | None, str]] = {
        "INSTANCE": (instance, "an instance, or --resume DIR"),
        "--training": (training, "a TRAINING.toml, or --resume DIR"),
    }
    folder = EdgeFolder(run_folder(context, out, resume, required))
    if device not in ("cpu", "cuda"):
        raise InputError("--device", f"{device!r}", "cpu or cuda")
    console = Console(highlight=False)
    _check_packages(ray)
    with resumable("edge run", folder.root, partial(has_inputs, folder)):
        resume_run, prepare = False, None
        if instance is None or training is None:
            # A run that was stopped before its start starts now.
            inputs, resume_run = read_copied_inputs(folder), folder.has_started
        else:
            inputs = read_inputs(instance, training, mechanism, device, ray or "")
            prepare = partial(copy_inputs, instance, inputs, folder)
            inputs = copies_of(inputs, folder)
        warn_compiling(plan_cost, "the edge's")
        with RunDisplay(console) as display:
            report = run_edge(inputs, folder, display.on_event, resume=resume_run, prepare=prepare)
    _print_report(report, folder)


class RunDisplay:
    """Shows the progress of a run: lines, and a live table on a terminal.

    A context manager.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shares: dict[str, float] = {}
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_event(self, event: RunEvent, state: EdgeRunState) -> None:
        """Show an event of the run."""
        match event:
            case BidDecided(_, job, decision):
                self._print(f"          {job} {_decision_text(decision)}")
            case SlotBegun(slot, jobs):
                self._shares = dict.fromkeys(jobs, 0.0)
                self._print(f"slot {slot:3d}  {len(jobs)} training")
            case SlotProgress(shares):
                self._shares |= shares
            case JobSlotTrained(slot, job):
                self._shares.pop(job, None)
                self._print(f"          {job} {_slot_text(state.jobs[job], slot)}")
            case SiteGone(site):
                self._print(f"          site {site} was lost", "red")
            case SiteClosed(_, _, replanned):
                for one in replanned:
                    self._print(f"          {one.job} {_replanned_text(one.found)}", "red")
            case JobRefunded(_, job):
                self._print(f"          {job} {_replanned_text(None)}", "red")
            case SlotEnded():
                self._shares = {}
        if self._console.is_terminal:
            self._live.update(self._table(state), refresh=True)

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, markup=False, soft_wrap=True)

    def _table(self, state: EdgeRunState) -> Table:
        slots = state.instance.market.slots
        table = Table(title=f"slot {state.slot} of {slots}", title_justify="left")
        for name in ("job", "workers", "server", "slot", "chunks", "loss"):
            table.add_column(name)
        for name, share in self._shares.items():
            record = state.jobs[name]
            part = record.part(state.slot)
            taken = {} if record.plan is None else record.plan.chunks_before(state.slot)
            last = record.trained[max(record.trained)] if record.trained else None
            table.add_row(
                name,
                "" if part is None else ", ".join(f"{n} {s}" for s, n in part.workers.items()),
                "" if part is None else part.server,
                f"{share:.0%}",
                f"{sum(taken.values())} of {record.job.num_chunks}",
                _loss_text(None if last is None else last.loss),
            )
        return table


def _decision_text(decision: EdgeDecision) -> str:
    if not decision.admitted:
        return f"rejected: {decision.reason}"
    return f"admitted, pays {decision.payment:,.4f}, finishes in slot {decision.finish}"


def _slot_text(record: JobRecord, slot: int) -> str:
    assert record.plan is not None
    part = record.plan.at(slot)
    assert part is not None
    workers = ", ".join(f"{count} at {site}" for site, count in part.workers.items())
    outcome = record.trained[slot]
    losses = f"loss {_loss_text(outcome.loss)}"
    if outcome.validation_loss is not None:
        losses += f", validation loss {_loss_text(outcome.validation_loss)}"
    ended = ", done" if record.is_done else ""
    return (
        f"{part.chunks} chunks, workers {workers}, server at {part.server}; {losses}, "
        f"{outcome.seconds:.1f} s{ended}"
    )


def _replanned_text(found: EdgePlan | None) -> str:
    if found is None:
        return "is refunded"
    return f"continues at other sites, finishes in slot {found.finish}"


def _loss_text(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.3f}"


def _print_report(report: EdgeRunReport, folder: EdgeFolder) -> None:
    numbers = ("paid", "refund", "finish", "promised", "loss", "traffic MB", "planned MB")
    table = make_table("job", "state", *numbers, right=numbers)
    for bill in report.jobs:
        table.add_row(
            bill.job,
            bill.state,
            f"{bill.payment:,.4f}",
            f"{bill.refund:,.4f}",
            "-" if bill.finish is None else f"{bill.finish}",
            "-" if bill.promised is None else f"{bill.promised}",
            _loss_text(bill.loss if bill.validation_loss is None else bill.validation_loss),
            f"{bill.counted_mb:,.1f}",
            f"{bill.planned_mb:,.1f}",
        )
    print_table(table)
    for site, slot in report.lost.items():
        typer.echo(f"site {site} was lost: no work from slot {slot} on")
    typer.echo(f"welfare {report.welfare:,.1f}, income {report.income:,.4f}")
    typer.echo(f"report: {folder.report}")


def _check_packages(ray: str | None) -> None:
    needed = ("torch", "peft") if ray is None else ("torch", "peft", "ray")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        found = f"need {', '.join(missing)}, which are not installed"
        extras = ("train",) if ray is None else ("train", "ray")
        raise InputError("real runs of the edge", found, install_command(*extras))
