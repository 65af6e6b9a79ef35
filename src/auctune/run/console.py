"""A run on the terminal: decisions as they are made, a bar for each task, a table at the end."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from auctune.domain import Decision, Reason
from auctune.run.market.demand import Bid
from auctune.run.progress_lines import ProgressLines
from auctune.run.state import TaskRecord

_WHY = {
    Reason.NO_FEASIBLE_SCHEDULE: "no schedule meets the deadline, even on empty nodes",
    Reason.NO_CAPACITY: "no room is left before the deadline",
}


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
        """Preparation has come so far."""
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
        """Preparation is over: its bars go."""
        for bar in self._tasks.values():
            self._bars.remove_task(bar)
        self._tasks.clear()

    def decided(self, slot: int, bid: Bid, decision: Decision) -> None:
        """A line for the answer to a bid."""
        self.console.print(_decision_line(slot, bid, decision), soft_wrap=True)

    def repaired(self, bid: Bid, vendor: str, rows_in: int, rows_out: int) -> None:
        """A line for a vendor's work."""
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

    def finished(self, slot: int, bid: Bid, record: TaskRecord) -> None:
        """A line for a task whose training has ended."""
        if task := self._tasks.pop(bid.task.id, None):
            self._bars.remove_task(task)
        assert record.result is not None
        line = Text(f"slot {slot:>3} ")
        if record.result.state == "done":
            line.append(f" {bid.task.id} ", style="bold")
            line.append("done", style="green")
        else:
            line.append(f" {bid.task.id} ", style="bold")
            line.append("failed", style="red")
        if record.losses:
            line.append(f": loss {record.losses[0][3]:.3f} to {record.losses[-1][3]:.3f}")
            line.append(f" in {record.result.steps} steps")
        self.console.print(line, soft_wrap=True)

    def noted(self, text: str) -> None:
        """A line that an operator should see."""
        self.console.print(Text(f"note: {text}", style="yellow"), soft_wrap=True)


def _decision_line(slot: int, bid: Bid, decision: Decision) -> Text:
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


def _why_rejected(bid: Bid, decision: Decision) -> str:
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
