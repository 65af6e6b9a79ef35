"""`auctune edge run`: train the admitted jobs of an edge market on Ray."""

import importlib.util
from collections.abc import Mapping
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
from auctune.run.edge.folder import EdgeFolder
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
            metavar="FILE", help="Training of jobs (TOML). Default: a small network on digits."
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
    """Decide on bids, and train the admitted jobs at sites.

    Sites are Ray nodes, all on this machine unless --ray names a cluster. A slot lasts as long as
    its work. Resume a run that was stopped or killed with --resume. If the node of a site fails,
    the jobs of that site are replanned, or refunded.
    """
    required = {"INSTANCE": (instance, "an instance, or --resume DIR")}
    folder = EdgeFolder(run_folder(context, out, resume, required))
    if device not in ("cpu", "cuda"):
        raise InputError("--device", f"{device!r}", "cpu or cuda")
    console = Console(highlight=False)
    with console.status("starting"):
        _check_packages()
        from auctune.run.edge.inputs import has_inputs, keep_inputs, kept_inputs, read_inputs
        from auctune.run.edge.job_data import read_all
        from auctune.run.edge.run import nothing, run_edge

    with resumable("edge run", folder.root, partial(has_inputs, folder)):
        if instance is None:
            # A run that was stopped before its start starts now.
            inputs, begun, prepare = kept_inputs(folder), folder.has_started, nothing
        else:
            inputs, begun = read_inputs(instance, training, mechanism, device, ray or ""), False
            prepare = partial(keep_inputs, instance, inputs, folder)
        data = read_all(inputs.instance.jobs, inputs.recipes)
        warn_compiling("plan_cost", "the edge's")
        with RunDisplay(inputs.instance.market, console) as display:
            report = run_edge(inputs, data, folder, display, resume=begun, prepare=prepare)
    _print_report(report, folder)


class RunDisplay:
    """Listener of a run (`EdgeListener`): lines, and a live table on a terminal.

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

    def offered(self, record: JobRecord) -> None:
        decision = record.decision
        self._records[record.job.id] = record
        if decision.admitted:
            text = f"admitted, pays {decision.payment:,.4f}, finishes in slot {decision.finish}"
        else:
            text = f"rejected: {decision.reason}"
        self._print(f"          {record.job.id} {text}")

    def slot_begun(self, slot: int, records: list[JobRecord]) -> None:
        self._slot = slot
        self._shares = {record.job.id: 0.0 for record in records}
        self._records |= {record.job.id: record for record in records}
        self._print(f"slot {slot:3d}  {len(records)} training")
        self._draw()

    def went_on(self, shares: Mapping[str, float]) -> None:
        self._shares |= shares
        self._draw()

    def trained(self, record: JobRecord, slot: int) -> None:
        self._shares.pop(record.job.id, None)
        outcome = record.trained[slot]
        ended = ", done" if record.is_done else ""
        self._print(
            f"          {record.job.id} {_workers_text(record, slot)}; loss {outcome.loss:.3f}, "
            f"accuracy {outcome.accuracy:.1%}, {outcome.seconds:.1f} s{ended}"
        )
        self._draw()

    def site_lost(self, site: str, records: list[JobRecord]) -> None:
        for record in records:
            end = "is refunded" if record.refunded else "continues at other sites"
            if record.plan is not None and not record.refunded:
                end += f", finishes in slot {record.plan.finish}"
            self._print(f"          {record.job.id} {end}", "red")

    def slot_done(self, slot: int) -> None:
        self._shares = {}
        self._draw()

    def noted(self, text: str) -> None:
        self._print(f"          {text}", "red")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(title=f"slot {self._slot} of {self._market.slots}", title_justify="left")
        for name in ("job", "workers", "server", "slot", "chunks", "loss", "accuracy"):
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
                "-" if last is None else f"{last.loss:.3f}",
                "-" if last is None else f"{last.accuracy:.1%}",
            )
        return table


def _workers_text(record: JobRecord, slot: int) -> str:
    assert record.plan is not None
    part = next(part for part in record.plan.slots if part.slot == slot)
    workers = ", ".join(f"{count} at {site}" for site, count in part.workers.items())
    return f"{part.chunks} chunks, workers {workers}, server at {part.server}"


def _print_report(report: "EdgeRunReport", folder: EdgeFolder) -> None:
    numbers = ("paid", "refund", "finish", "promised", "accuracy", "traffic MB", "planned MB")
    table = make_table("job", "state", *numbers, right=numbers)
    for bill in report.jobs:
        table.add_row(
            bill.job,
            bill.state,
            f"{bill.payment:,.4f}",
            f"{bill.refund:,.4f}",
            "-" if bill.finish is None else f"{bill.finish}",
            "-" if bill.promised is None else f"{bill.promised}",
            "-" if bill.accuracy is None else f"{bill.accuracy:.1%}",
            f"{bill.counted_mb:,.1f}",
            f"{bill.planned_mb:,.1f}",
        )
    print_table(table)
    for site, slot in report.lost.items():
        typer.echo(f"site {site} was lost: no work from slot {slot} on")
    typer.echo(f"welfare {report.welfare:,.1f}, income {report.income:,.4f}")
    typer.echo(f"report: {folder.report}")


def _check_packages() -> None:
    missing = [name for name in ("ray", "torch", "PIL") if importlib.util.find_spec(name) is None]
    if missing:
        found = f"need {', '.join(missing)}, which are not installed"
        raise InputError("real runs of the edge", found, "pip install 'auctune[train,ray]'")
