"""What one sees of a run of the edge while it goes on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.table import Table

    from auctune.edge import EdgeMarket
    from auctune.run.edge.state import JobRecord


class Watching:
    """An `EdgeListener` and a context: lines as things happen, and on a terminal a live table.

    Args:
        market: that is run.
        console: to write to.
    """

    def __init__(self, market: "EdgeMarket", console: "Console") -> None:
        from rich.live import Live

        self._market, self._console = market, console
        self._slot = 0
        self._records: dict[str, JobRecord] = {}
        self._shares: dict[str, float] = {}
        self._live = Live(console=console, transient=True, auto_refresh=False)

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
        self._live.stop()

    def offered(self, record: "JobRecord") -> None:
        """See `EdgeListener`."""
        decision = record.decision
        self._records[record.job.id] = record
        if decision.admitted:
            says = f"admitted, pays {decision.payment:,.4f}, to be done in slot {decision.finish}"
        else:
            says = f"rejected: {decision.reason}"
        self._say(f"          {record.job.id} {says}")

    def slot_begun(self, slot: int, records: "list[JobRecord]") -> None:
        """See `EdgeListener`."""
        self._slot = slot
        self._shares = {record.job.id: 0.0 for record in records}
        self._records |= {record.job.id: record for record in records}
        self._say(f"slot {slot:3d}  {len(records)} training")
        self._draw()

    def went_on(self, shares: Mapping[str, float]) -> None:
        """See `EdgeListener`."""
        self._shares |= shares
        self._draw()

    def trained(self, record: "JobRecord", slot: int) -> None:
        """See `EdgeListener`."""
        self._shares.pop(record.job.id, None)
        outcome = record.trained[slot]
        ended = ", done" if record.is_done else ""
        self._say(
            f"          {record.job.id} {_crew(record, slot)}; loss {outcome.loss:.3f}, "
            f"accuracy {outcome.accuracy:.1%}, {outcome.seconds:.1f} s{ended}"
        )
        self._draw()

    def site_lost(self, site: str, records: "list[JobRecord]") -> None:
        """See `EdgeListener`."""
        for record in records:
            end = "is refunded" if record.refunded else "goes on elsewhere"
            if record.plan is not None and not record.refunded:
                end += f", to be done in slot {record.plan.finish}"
            self._say(f"          {record.job.id} {end}", "red")

    def slot_done(self, slot: int) -> None:
        """See `EdgeListener`."""
        self._shares = {}
        self._draw()

    def noted(self, text: str) -> None:
        """See `EdgeListener`."""
        self._say(f"          {text}", "red")

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> "Table":
        from rich.table import Table

        table = Table(title=f"slot {self._slot} of {self._market.slots}", title_justify="left")
        for name in (
            "job",
            "workers",
            "server",
            "of its slot",
            "of its chunks",
            "loss",
            "accuracy",
        ):
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


def _crew(record: "JobRecord", slot: int) -> str:
    assert record.plan is not None
    part = next(part for part in record.plan.slots if part.slot == slot)
    workers = ", ".join(f"{count} at {site}" for site, count in part.workers.items())
    return f"{part.chunks} chunks, workers {workers}, server at {part.server}"
