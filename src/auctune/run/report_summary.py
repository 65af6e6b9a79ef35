"""The short form of a report, for a terminal."""

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from auctune.domain import Reason
from auctune.run.report_data import MarketReport, ReportTask, TaskState
from auctune.run.report_task import format_money

NAME_CHARACTERS = 22
HEADINGS = ("bid", "price", "paid", "slots", "by", "loss", "state")
REASONS = {
    Reason.NO_FEASIBLE_SCHEDULE: "infeasible",
    Reason.NO_CAPACITY: "no capacity",
    Reason.UNPROFITABLE: "unprofitable",
}
STYLES = {
    TaskState.REJECTED: "dim",
    TaskState.PLANNED: "",
    TaskState.TRAINING: "cyan",
    TaskState.DONE: "green",
    TaskState.FAILED: "red",
}


def render_summary(report: MarketReport) -> RenderableType:
    """A row a task and the totals, within 80 columns where amounts are below 1,000."""
    cells = [_cells(task) for task in report.tasks]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", no_wrap=True, max_width=NAME_CHARACTERS, overflow="ellipsis")
    for column, heading in enumerate(HEADINGS, start=1):
        # Only names may be cut where the terminal is narrow.
        width = max(len(heading), *(len(row[column]) for row in cells), 1)
        justify: JustifyMethod = "left" if heading == "state" else "right"
        table.add_column(heading, justify=justify, no_wrap=True, min_width=width)
    for row in cells:
        table.add_row(*row)
    notes = [Text(f"! {note}", style="yellow") for note in report.notes]
    return Group(Text(report.title, style="bold"), table, Text(_totals(report)), *notes)


def _cells(task: ReportTask) -> list[Text]:
    decision = task.decision
    reason = "" if decision.reason is None else REASONS[decision.reason]
    last_loss = f"{task.losses[-1].loss:.3f}" if task.losses else "-"
    texts = [
        task.id,
        format_money(task.bid),
        "-" if decision.price is None else format_money(decision.price),
        format_money(decision.payment) if task.admitted else "-",
        f"{task.cells[0].slot}-{task.finish}" if task.cells else "-",
        str(task.deadline),
        last_loss,
        reason or str(task.state),
    ]
    # Text objects: a name in square brackets is no markup.
    return [Text(text, style="dim" if not task.admitted else "") for text in texts[:-1]] + [
        Text(texts[-1], style=STYLES[task.state])
    ]


def _totals(report: MarketReport) -> str:
    totals = report.totals
    return (
        f"{totals.admitted} of {totals.tasks} admitted, {totals.done} done; "
        f"welfare {format_money(totals.welfare)}, revenue {format_money(totals.revenue)}\n"
        f"vendors {format_money(totals.vendor_cost)}, "
        f"operation {format_money(totals.operating_cost)}, "
        f"surplus {format_money(totals.surplus)}; "
        f"compute {totals.compute_utilization:.0%}, memory {totals.memory_utilization:.0%} in use"
    )
