"""A run on the terminal: decisions as they are made, a bar for each task, a table at the end."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from auctune.domain import Decision, Reason
from auctune.domain.money import format_money

if TYPE_CHECKING:
    from auctune.engine.market.demand import Bid
    from auctune.engine.market.report_data import MarketReport, ReportTask

LINE_SECONDS = 10.0
"""Time between two lines on the progress of one step."""
_NAME_CHARACTERS = 22
_HEADINGS = ("bid", "price", "paid", "slots", "by", "loss", "state")
_REASONS = {
    Reason.NO_FEASIBLE_SCHEDULE: "infeasible",
    Reason.NO_CAPACITY: "no capacity",
    Reason.UNPROFITABLE: "unprofitable",
}
_STYLES = {"rejected": "dim", "planned": "", "training": "cyan", "done": "green", "failed": "red"}
_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "no schedule meets the deadline, even on empty nodes",
    Reason.NO_CAPACITY: "no room is left before the deadline",
}


class ProgressLines:
    """Progress as lines where there is no terminal: one at the start of each step, then a few."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._doing, self._began, self._printed = "", 0.0, 0.0

    def line(self, what: str, share: float) -> str:
        """Return the line to print now, empty if none is due.

        Args:
            what: the step.
            share: of it that is done; 0 if unknown.
        """
        now = self._clock()
        if share >= 1:
            # The first line of the next step shows that this one is over.
            return ""
        if what != self._doing:
            self._doing, self._began, self._printed = what, now, now
            return f"{what} ..."
        if share <= 0 or now - self._printed < LINE_SECONDS:
            return ""
        self._printed = now
        return f"{what}: {share:.0%} after {now - self._began:.0f} s"


class RunConsole:
    """Shows a run; where there is no terminal, it prints lines and no bars."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lines = ProgressLines()

    def __enter__(self) -> "RunConsole":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def preparing(self, what: str, share: float) -> None:
        """Show the progress of a step of the preparation."""
        if not self.console.is_terminal:
            if line := self._lines.line(what, share):
                self.console.print(Text(line), soft_wrap=True)
            return
        if what not in self._tasks:
            for bar in self._tasks.values():
                self._bars.update(bar, visible=False)
            self._tasks[what] = self._bars.add_task(what, total=100, facts="")
        self._bars.update(self._tasks[what], completed=100 * share, facts=f"{share:.0%}")

    def prepared(self) -> None:
        """Remove the bars of the preparation."""
        for bar in self._tasks.values():
            self._bars.remove_task(bar)
        self._tasks.clear()

    def decided(self, slot: int, bid: "Bid", decision: Decision) -> None:
        """Print a line for a decision."""
        self.console.print(_decision_line(slot, bid, decision), soft_wrap=True)

    def repaired(self, bid: "Bid", vendor: str, rows_in: int, rows_out: int) -> None:
        """Print a line for a vendor's work."""
        self.console.print(
            Text(f"          {vendor} repaired {bid.task.id}: {rows_in} rows in, {rows_out} out"),
            soft_wrap=True,
        )

    def training(self, slot: int, task: str, rows: int, total: int, loss: float | None) -> None:
        """Move a task's bar."""
        if task not in self._tasks:
            self._tasks[task] = self._bars.add_task(task, total=total, facts="")
        facts = f"slot {slot}  {rows}/{total} rows"
        if loss is not None:
            facts += f"  loss {loss:.3f}"
        self._bars.update(self._tasks[task], completed=rows, total=total, facts=facts)

    def finished(self, slot: int, task: "ReportTask") -> None:
        """Print a line for a task whose training has ended."""
        if bar := self._tasks.pop(task.id, None):
            self._bars.remove_task(bar)
        line = Text(f"slot {slot:>3} ")
        line.append(f" {task.id} ", style="bold")
        line.append(str(task.state), style=_STYLES[task.state])
        if task.losses:
            line.append(f": loss {task.losses[0].loss:.3f} to {task.losses[-1].loss:.3f}")
            line.append(f" in {task.steps} steps")
        self.console.print(line, soft_wrap=True)

    def noted(self, text: str) -> None:
        """Print a line for the operator."""
        self.console.print(Text(f"note: {text}", style="yellow"), soft_wrap=True)


def _decision_line(slot: int, bid: "Bid", decision: Decision) -> Text:
    line = Text(f"slot {slot:>3}  ")
    line.append(bid.task.id, style="bold")
    if decision.schedule is None:
        line.append(" rejected", style="red")
        line.append(f": {_why_rejected(bid, decision)}")
        return line
    line.append(" admitted", style="green")
    line.append(f": pays {decision.payment} (bid {bid.task.bid})")
    line.append(f", {_plan(decision)}")
    if decision.schedule.vendor:
        line.append(f", data repaired by {decision.schedule.vendor}")
    return line


def _why_rejected(bid: "Bid", decision: Decision) -> str:
    assert decision.reason is not None
    if decision.reason is Reason.UNPROFITABLE:
        least = decision.min_bid
        enough = "" if least is None else f"; {least} would have done"
        return f"bid {bid.task.bid} is not above the price{enough}"
    return _WHY[decision.reason]


def _plan(decision: Decision) -> str:
    """The cells in short: `slots 0-2 on alpha, 3 on beta`."""
    assert decision.schedule is not None
    runs: list[tuple[str, int, int]] = []
    for slot, node in decision.schedule.cells:
        if runs and runs[-1][0] == node and runs[-1][2] == slot - 1:
            runs[-1] = (node, runs[-1][1], slot)
        else:
            runs.append((node, slot, slot))
    parts = [f"{a}-{b} on {node}" if b > a else f"{a} on {node}" for node, a, b in runs]
    return "slots " + ", ".join(parts)


def render_summary(report: "MarketReport") -> RenderableType:
    """Return a row a task and the totals, within 80 columns where amounts are below 1,000."""
    cells = [_cells(task) for task in report.tasks]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", no_wrap=True, max_width=_NAME_CHARACTERS, overflow="ellipsis")
    for column, heading in enumerate(_HEADINGS, start=1):
        # Only names may be cut where the terminal is narrow.
        width = max(len(heading), *(len(row[column]) for row in cells), 1)
        justify: JustifyMethod = "left" if heading == "state" else "right"
        table.add_column(heading, justify=justify, no_wrap=True, min_width=width)
    for row in cells:
        table.add_row(*row)
    notes = [Text(f"! {note}", style="yellow") for note in report.notes]
    return Group(Text(report.title, style="bold"), table, Text(_totals(report)), *notes)


def _cells(task: "ReportTask") -> list[Text]:
    reason = "" if task.reason is None else _REASONS[task.reason]
    last_loss = f"{task.losses[-1].loss:.3f}" if task.losses else "-"
    texts = [
        task.id,
        format_money(task.bid),
        "-" if task.price is None else format_money(task.price),
        format_money(task.payment) if task.admitted else "-",
        f"{task.schedule[0].slot}-{task.finish}" if task.schedule else "-",
        str(task.deadline),
        last_loss,
        reason or str(task.state),
    ]
    # Text objects: a name in square brackets is no markup.
    return [Text(text, style="dim" if not task.admitted else "") for text in texts[:-1]] + [
        Text(texts[-1], style=_STYLES[task.state])
    ]


def _totals(report: "MarketReport") -> str:
    totals = report.totals
    return (
        f"{totals.admitted} of {totals.tasks} admitted, {totals.done} done; "
        f"welfare {format_money(totals.welfare)}, revenue {format_money(totals.revenue)}\n"
        f"vendors {format_money(totals.vendor_cost)}, "
        f"operation {format_money(totals.operating_cost)}, "
        f"surplus {format_money(totals.surplus)}; "
        f"compute {totals.utilization.compute:.0%}, memory {totals.utilization.memory:.0%} in use"
    )
