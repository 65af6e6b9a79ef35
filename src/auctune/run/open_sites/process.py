"""The process of open sites as their owner holds it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from auctune.run.child import ChildProcess, Hear
from auctune.run.open_sites.messages import SiteOrder, SitesSettings

WORKER = ("-m", "auctune.run.open_sites.worker")


class SitesProcess(ChildProcess):
    """A child process that trains at sites; it ends at once when its owner does.

    Args:
        settings: what it runs and how.
        hear, lock, log: as for any child process.
        program: arguments for the interpreter.
    """

    def __init__(
        self,
        settings: SitesSettings,
        hear: Hear,
        *,
        lock: int | None = None,
        log: Path | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        super().__init__(program, asdict(settings), hear, lock=lock, log=log)

    def train(self, slot: int, jobs: Collection[str], orders: Iterable[SiteOrder]) -> None:
        """Have a slot trained; `jobs` are those that are not over."""
        plain = [order.to_record() for order in orders]
        self.tell({"do": "slot", "slot": slot, "open": list(jobs), "orders": plain})

    def expect(self, jobs: Collection[str], orders: Iterable[SiteOrder]) -> None:
        """Say what the next slot will be."""
        plain = [order.to_record() for order in orders]
        self.tell({"do": "coming", "open": list(jobs), "orders": plain})

    def look_ahead(self, orders: Iterable[SiteOrder]) -> None:
        """Say what is known of the next slot, while one goes on."""
        self.tell({"do": "ahead", "orders": [order.to_record() for order in orders]})
