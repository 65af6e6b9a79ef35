"""`auctune edge run`: train the admitted jobs of an edge market on Ray."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from auctune.cli._support.options import LABEL
from auctune.cli._support.progress import warn_compiling
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.cli._support.tables import make_table, print_table
from auctune.domain.errors import InputError
from auctune.edge import EdgeMarket
from auctune.run.edge.driver import (
    BidDecided,
    JobSlotTrained,
    JobsReplanned,
    RunEvent,
    SiteGone,
    SlotBegun,
    SlotEnded,
    SlotProgress,
)
from auctune.run.edge.edge_folder import EdgeFolder
from auctune.run.edge.state import JobRecord

if TYPE_CHECKING:
    from auctune.run.edge.report import EdgeRunReport


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
            help="Address of a Ray cluster with a node per site. Default: start one.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="Device of workers: cpu or cuda.")
    ] = "cpu",
) -> None:
    """Decide on bids, and train adapters at sites.

    Sites are Ray nodes, all on this machine unless --ray names a cluster. A slot lasts as long as
    its work. Resume a run that was stopped or killed with --resume. If the node of a site fails,
    the jobs of that site are replanned, or refunded.
    """
    required: dict[str, tuple[Path | None, str]] = {
        "INSTANCE": (instance, "an instance, or --resume DIR"),
        "--training": (training, "a TRAINING.toml, or --resume DIR"),
    }
    folder = EdgeFolder(run_folder(context, out, resume, required))
    if device not in ("cpu", "cuda"):
        raise InputError("--device", f"{device!r}", "cpu or cuda")
    console = Console(highlight=False)
    with console.status("starting"):
        _check_packages()
        from auctune.run.edge.driver import run_edge
        from auctune.run.edge.inputs import (
            copy_inputs,
            has_inputs,
            read_copied_inputs,
            read_inputs,
        )

    with resumable("edge run", folder.root, partial(has_inputs, folder)):
        resume_run, prepare = False, None
        if instance is None or training is None:
            # A run that was stopped before its start starts now.
            inputs, resume_run = read_copied_inputs(folder), folder.has_started
        else:
            inputs = read_inputs(instance, training, mechanism, device, ray or "")
            prepare = partial(copy_inputs, instance, inputs, folder)
        warn_compiling("plan_cost", "the edge's")
        with RunDisplay(inputs.instance.market, console) as display:
            report = run_edge(inputs, folder, display.on_event, resume=resume_run, prepare=prepare)
    _print_report(report, folder)


class RunDisplay:
    """Shows the progress of a run: lines, and a live table on a terminal.

    A context manager.
    """

    def __init__(self, market: EdgeMarket, console: Console) -> None:
        self._market, self._console = market, console
        self._slot = 0
        self._records: dict[str, JobRecord] = {}
        self._shares: dict[str, float] = {}
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_event(self, event: RunEvent) -> None:
        """Show an event of the run."""
        match event:
            case BidDecided(record):
                self._records[record.job.id] = record
                self._print(f"          {record.job.id} {_decision_text(record)}")
            case SlotBegun(slot, records):
                self._slot = slot
                self._shares = {record.job.id: 0.0 for record in records}
                self._records |= {record.job.id: record for record in records}
                self._print(f"slot {slot:3d}  {len(records)} training")
            case SlotProgress(shares):
                self._shares |= shares
            case JobSlotTrained(record, slot):
                self._shares.pop(record.job.id, None)
                self._print(f"          {record.job.id} {_slot_text(record, slot)}")
            case SiteGone(site):
                self._print(f"          site {site} was lost", "red")
            case JobsReplanned(records):
                for record in records:
                    self._print(f"          {record.job.id} {_replanned_text(record)}", "red")
            case SlotEnded():
                self._shares = {}
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, markup=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(title=f"slot {self._slot} of {self._market.slots}", title_justify="left")
        for name in ("job", "workers", "server", "slot", "chunks", "loss"):
            table.add_column(name)
        for name, share in self._shares.items():
            record = self._records[name]
            part = record.part(self._slot)
            last = record.trained[max(record.trained)] if record.trained else None
            table.add_row(
                name,
                "" if part is None else ", ".join(f"{n} {s}" for s, n in part.workers.items()),
                "" if part is None else part.server,
                f"{share:.0%}",
                f"{record.taken(self._slot).total()} of {record.job.num_chunks}",
                _loss_text(None if last is None else last.loss),
            )
        return table


def _decision_text(record: JobRecord) -> str:
    decision = record.decision
    if not decision.admitted:
        return f"rejected: {decision.reason}"
    return f"admitted, pays {decision.payment:,.4f}, finishes in slot {decision.finish}"


def _slot_text(record: JobRecord, slot: int) -> str:
    assert record.plan is not None
    part = next(part for part in record.plan.slots if part.slot == slot)
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


def _replanned_text(record: JobRecord) -> str:
    if record.refunded or record.plan is None:
        return "is refunded"
    return f"continues at other sites, finishes in slot {record.plan.finish}"


def _loss_text(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.3f}"


def _print_report(report: "EdgeRunReport", folder: EdgeFolder) -> None:
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


def _check_packages() -> None:
    missing = [name for name in ("ray", "torch", "peft") if importlib.util.find_spec(name) is None]
    if missing:
        found = f"need {', '.join(missing)}, which are not installed"
        raise InputError("real runs of the edge", found, "pip install 'auctune[train,ray]'")
