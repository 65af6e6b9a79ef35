"""Progress of a long command on standard error."""

from collections.abc import Callable
from typing import Any, Self

import typer
from rich.console import Console
from rich.progress import Progress

from auctune.numerics.jit import compiling, is_compiled
from auctune.sim.engine import Watch


class ProgressBars:
    """Progress bar, one at a time, if standard error is a terminal; a context manager."""

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
        """Replace the bar by that of a new stage; return a callback that advances it by a decision.

        Without a terminal there is no bar, and the callback is `None`.
        """
        advance = self.counter(label, total)
        return None if advance is None else lambda _task, _decision: advance()

    def counter(self, label: str, total: int | None = None) -> Callable[[], None] | None:
        """Like `stage`, with a callback without arguments."""
        progress = self._progress
        if progress is None:
            return None
        for before in progress.task_ids:
            progress.remove_task(before)
        bar = progress.add_task(label, total=total)
        return lambda: progress.advance(bar)


def warn_compiling(kernel: Callable[..., Any], mechanism: str) -> None:
    """Print on standard error that kernels are being compiled, unless they are cached."""
    if not is_compiled(kernel):
        typer.echo(compiling(mechanism), err=True)
