"""The process of open sites as their owner holds it."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path

from auctune.run.open_sites.messages import SiteOrder, SitesSettings
from auctune.run.runtime.channel import OnMessage
from auctune.run.runtime.local import WorkerProcess

WORKER = "auctune.run.open_sites.worker"


class SitesProcess(WorkerProcess):
    """A child process that trains at sites; it ends at once when its owner does.

    Args:
        settings: what it runs and how.
        on_message, lock, log: as of `WorkerProcess`.
        module: of the worker.
    """

    def __init__(
        self,
        settings: SitesSettings,
        on_message: OnMessage,
        *,
        lock: int | None = None,
        log: Path | None = None,
        module: str = WORKER,
    ) -> None:
        super().__init__(module, asdict(settings), on_message, lock=lock, log=log, fork=True)

    def train(self, slot: int, jobs: Collection[str], orders: Iterable[SiteOrder]) -> None:
        """Have a slot trained; `jobs` are those that are not over."""
        plain = [order.to_record() for order in orders]
        self.send({"do": "slot", "slot": slot, "open": list(jobs), "orders": plain})

    def expect(self, jobs: Collection[str], orders: Iterable[SiteOrder]) -> None:
        """Say what the next slot will be."""
        plain = [order.to_record() for order in orders]
        self.send({"do": "coming", "open": list(jobs), "orders": plain})

    def look_ahead(self, orders: Iterable[SiteOrder]) -> None:
        """Say what is known of the next slot, while one goes on."""
        self.send({"do": "ahead", "orders": [order.to_record() for order in orders]})
