"""A bar on stderr for what takes long, if that is a terminal."""

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from auctune.sim.engine import Watch


class Bars:
    """A context that shows one bar at a time, and none where nobody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._progress = Progress(console=console, transient=True) if console.is_terminal else None

    def __enter__(self) -> "Bars":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def stage(self, words: str, total: int | None = None) -> "Watch | None":
        """Show what goes on now, in place of what went on before.

        Args:
            words: for it.
            total: how many decisions it will make; none: it is not known how long it takes.

        Returns:
            What moves the bar on by a decision; none where there is no bar.
        """
        advance = self.counter(words, total)
        return None if advance is None else lambda _task, _decision: advance()

    def counter(self, words: str, total: int | None = None) -> "Callable[[], None] | None":
        """The same for what is no decision."""
        progress = self._progress
        if progress is None:
            return None
        for before in progress.task_ids:
            progress.remove_task(before)
        bar = progress.add_task(words, total=total)
        return lambda: progress.advance(bar)
