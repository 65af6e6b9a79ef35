"""Progress of a long command on standard error."""

from collections.abc import Callable
from typing import Self

import typer
from rich.console import Console
from rich.progress import Progress

from auctune.numerics.jit import compiling, kernels_are_compiled
from auctune.sim.engine import Watch


class ProgressBars:
    """Shows one bar at a time, and none without a terminal; a context manager."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(console=console, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def stage(self, label: str, total: int | None = None) -> Watch | None:
        """Show a stage instead of the one before.

        Args:
            label: of the bar.
            total: number of decisions in it; `None`: unknown.

        Returns:
            Advances the bar by a decision; `None` without a bar.
        """
        advance = self.counter(label, total)
        return None if advance is None else lambda _task, _decision: advance()

    def counter(self, label: str, total: int | None = None) -> Callable[[], None] | None:
        """Like `stage`, for steps that are not decisions."""
        progress = self._progress
        if progress is None:
            return None
        for before in progress.task_ids:
            progress.remove_task(before)
        bar = progress.add_task(label, total=total)
        return lambda: progress.advance(bar)


def warn_compiling(kernel: str, mechanism: str) -> None:
    """Say on standard error that a command waits for the compiler, if it has to.

    Args:
        kernel: one that calls the others, or is called last.
        mechanism: whose kernels, as in `the edge's`.
    """
    if not kernels_are_compiled(kernel):
        typer.echo(compiling(mechanism), err=True)
