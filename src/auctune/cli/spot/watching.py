"""What one sees of a job that rents while it runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from auctune.run.spot.state import SlotRecord
    from auctune.spot import SpotJob
    from auctune.train.progress import Progress


class Watching:
    """A `SpotListener` and a context: a line a slot, and on a terminal a bar that moves.

    Args:
        job: that is run.
        console: to write to.
    """

    def __init__(self, job: "SpotJob", console: "Console") -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._job, self._console = job, console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f}%"),
            TextColumn("{task.fields[says]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=None, says="")
        self._cost = 0.0
        self._share = 0.0
        self._loss: float | None = None

    def __enter__(self) -> "Watching":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self._bar.stop()

    def slot_begun(self, record: "SlotRecord") -> None:
        """See `SpotListener`."""
        seen, held = record.observation, record.allocation
        self._cost = seen.cost + record.paid
        self._console.print(
            f"slot {seen.slot:3d}  price {seen.price:.3f}, {seen.available} spot available; "
            f"holds {held.on_demand} on-demand + {held.spot} spot; cost {self._cost:.3f}"
        )

    def trained(self, now: float, num_workers: int, progress: "Progress") -> None:
        """See `SpotListener`."""
        self._loss = progress.loss if progress.loss is not None else self._loss
        self._share = progress.rows / progress.total_rows
        says = f"{num_workers} at work, slot {now:.2f}, cost {self._cost:.3f}{self._loss_words()}"
        self._bar.update(self._task, total=progress.total_rows, completed=progress.rows, says=says)

    def taken_back(self, now: float, count: int) -> None:
        """See `SpotListener`."""
        self._console.print(f"          {count} spot taken away at {now:.2f}", style="red")

    def slot_done(self, record: "SlotRecord") -> None:
        """See `SpotListener`."""
        pace = min(1.0, (record.observation.slot + 1) / self._job.deadline)
        self._console.print(
            f"          {self._share:.1%} done, even pace {pace:.1%}{self._loss_words()}"
        )

    def ending_begun(self, now: float, num_instances: int) -> None:
        """See `SpotListener`."""
        self._console.print(
            f"deadline  {1 - self._share:.1%} is left; {num_instances} on-demand until it is done",
            style="red",
        )

    def ending_held(self, since: float, until: float) -> None:
        """See `SpotListener`; the bar says it."""

    def noted(self, text: str) -> None:
        """See `SpotListener`."""
        self._console.print(text, style="yellow", markup=False)

    def data_noted(self, text: str) -> None:
        """See `SpotListener`."""
        self.noted(text)

    def _loss_words(self) -> str:
        return "" if self._loss is None else f", loss {self._loss:.3f}"
