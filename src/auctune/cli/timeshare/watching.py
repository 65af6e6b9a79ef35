"""What one sees of threads that share a device while they train."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.table import Table

    from auctune.run.timeshare.foresight import ThreadView
    from auctune.run.timeshare.state import UnitRecord

_COLOURS = {"done": "green", "in time": "green", "late": "yellow", "missed": "red"}


class Watching:
    """A `PoolListener` and a context.

    On a terminal one table that changes with each unit; elsewhere a line whenever it stands
    otherwise with a thread.

    Args:
        console: to write to.
    """

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False)
        self._said: dict[str, str] = {}

    def __enter__(self) -> "Watching":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def unit_done(self, unit: "UnitRecord", views: "Sequence[ThreadView]") -> None:
        """See `PoolListener`."""
        if self._console.is_terminal:
            self._live.update(thread_table(unit.time, views), refresh=True)
            return
        for view in views:
            if self._said.get(view.name) != view.verdict:
                self._said[view.name] = view.verdict
                loss = "" if view.loss is None else f", loss {view.loss:.4g}"
                self._console.print(
                    f"unit {unit.time:4d}  {view.name}: {view.verdict}, "
                    f"{view.batches} batches{loss}"
                )

    def noted(self, text: str) -> None:
        """See `PoolListener`."""
        self._console.print(text, style="yellow", markup=False)


def thread_table(time: int, views: "Sequence[ThreadView]") -> "Table":
    """All threads after a unit: share, samples, loss, predicted finish, verdict.

    Args:
        time: the unit.
        views: of the threads.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"unit {time}", title_justify="left")
    table.add_column("thread", no_wrap=True)
    for name in ("share", "batches", "loss", "target", "finish", "deadline"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for view in views:
        table.add_row(
            Text(view.name),
            f"{view.share:.0%}" if view.share else "-",
            f"{view.batches:,}",
            "-" if view.loss is None else f"{view.loss:.4g}",
            f"{view.threshold:g}",
            "-" if view.finish is None else f"{view.finish:,.0f}",
            f"{view.deadline}",
            Text(view.verdict, style=_COLOURS.get(view.verdict, "")),
        )
    return table
