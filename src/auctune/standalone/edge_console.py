"""A run at sites on the terminal: a line for each event, and a table of the running slot."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from auctune.engine.edge.records import SlotRequest, read_plan
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.edge.state import EdgeEventType


class EdgeConsole:
    """Shows the progress of a run: lines, and a live table on a terminal.

    A context manager.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._title = ""
        # Of the running slot: what is requested, and the share that is trained, by job.
        self._requests: dict[str, SlotRequest] = {}
        self._shares: dict[str, float] = {}
        self._losses: dict[str, float | None] = {}

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def slot_begun(self, slot: int, slots: int, requests: Sequence[SlotRequest]) -> None:
        """Show that a slot of so many has begun, and what is trained in it."""
        self._title = f"slot {slot} of {slots}"
        self._requests = {one.job.id: one for one in requests}
        self._shares = dict.fromkeys(self._requests, 0.0)
        self._print(f"slot {slot:3d}  {len(requests)} training")

    def progress(self, shares: Mapping[str, float]) -> None:
        """Show which shares of the running slot jobs have trained."""
        self._shares |= shares
        self._refresh()

    def on_event(self, event: ZoneEvent) -> None:
        """Show an event of the zone."""
        job, body = event.job or "", event.body
        match event.type:
            case EventType.DECIDED:
                self._print(f"          {job} {_decision_text(body['decision'])}")
            case EventType.TRAINED:
                self._losses[job] = body["outcome"]["loss"]
                self._print(f"          {job} {_slot_text(self._requests.pop(job), body)}")
            case EdgeEventType.SITE_LOST:
                self._print(f"          site {body['site']} was lost", "red")
            case EdgeEventType.REPLANNED:
                finish = read_plan(body["found"]).finish
                text = f"continues at other sites, finishes in slot {finish}"
                self._print(f"          {job} {text}", "red")
            case EventType.FAILED if body["refund"]:
                self._print(f"          {job} is refunded", "red")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, markup=False, soft_wrap=True)
        self._refresh()

    def _refresh(self) -> None:
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(title=self._title, title_justify="left")
        for name in ("job", "workers", "server", "slot", "chunks", "loss"):
            table.add_column(name)
        for name, one in self._requests.items():
            table.add_row(
                name,
                ", ".join(f"{count} {site}" for site, count in one.part.workers.items()),
                one.part.server,
                f"{self._shares[name]:.0%}",
                f"{sum(one.taken.values())} of {one.job.num_chunks}",
                loss_text(self._losses.get(name)),
            )
        return table


def loss_text(loss: float | None) -> str:
    """Return a loss, or a dash without one."""
    return "-" if loss is None else f"{loss:.3f}"


def _decision_text(decision: Mapping[str, Any]) -> str:
    if not decision["admitted"]:
        return f"rejected: {decision['reason']}"
    payment = Decimal(decision["payment"])
    return f"admitted, pays {payment:,.4f}, finishes in slot {decision['finish']}"


def _slot_text(request: SlotRequest, body: Mapping[str, Any]) -> str:
    part, outcome = request.part, body["outcome"]
    workers = ", ".join(f"{count} at {site}" for site, count in part.workers.items())
    losses = f"loss {loss_text(outcome['loss'])}"
    if outcome["validation_loss"] is not None:
        losses += f", validation loss {loss_text(outcome['validation_loss'])}"
    is_done = request.is_last and body["result"]["state"] != "failed"
    return (
        f"{part.chunks} chunks, workers {workers}, server at {part.server}; {losses}, "
        f"{outcome['seconds']:.1f} s{', done' if is_done else ''}"
    )
