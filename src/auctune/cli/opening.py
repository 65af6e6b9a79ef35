"""What a service does before it is open, on standard error: a bar on a terminal, else lines."""

from types import TracebackType

from auctune.run.progress_lines import ProgressLines


class Opening:
    """A context.

    Attributes:
        doing: what is being done; empty before anything is.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self.doing = ""
        self._lines = ProgressLines()
        self._bar = self._bars.add_task("", total=None, visible=False)

    def __enter__(self) -> "Opening":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def report(self, what: str, share: float) -> None:
        """What is being done, and the share of it done; 0: it is not known."""
        if what == "done":
            return
        if not self._console.is_terminal and (line := self._lines.line(what, share)):
            self._console.print(line, markup=False)
        if what != self.doing:
            self.doing = what
            self._bars.reset(self._bar, description=what, visible=True)
        total = 1.0 if share > 0 else None
        self._bars.update(self._bar, total=total, completed=share)

    def end(self) -> None:
        """It is open, or failed."""
        self._bars.stop()
