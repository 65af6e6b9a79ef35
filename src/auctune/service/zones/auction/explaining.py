"""Why a bid got its answer: the market is rebuilt as it was just before, and asked.

Decisions follow from the log alone, so that none has to be explained while others wait for theirs:
the newest snapshot before it and the events between are folded into a market of their own.
"""

from collections.abc import Callable

from auctune.run.records import read_decision
from auctune.service.storage import EventLog, Snapshots
from auctune.service.zones.auction.job_rows import ROWS
from auctune.service.zones.auction.memory import AuctionMemory
from auctune.service.zones.auction.records import read_task
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.open_zone import Explained
from auctune.service.zones.restart import rebuilt


class AuctionExplainer:
    """Of one zone.

    Args:
        fresh: makes an empty market.
        log: of events.
        snapshots: of zones.
    """

    def __init__(
        self, fresh: Callable[[], AuctionMemory], log: EventLog, snapshots: Snapshots
    ) -> None:
        self._fresh = fresh
        self._log = log
        self._snapshots = snapshots

    def explain(self, decided: ZoneEvent) -> Explained:
        """Why, by the market as it was just before."""
        until = decided.seq - 1
        memory, _ = rebuilt(decided.zone, self._fresh, self._log, self._snapshots, until)
        task, decision = read_task(decided.body["task"]), read_decision(decided.body["decision"])
        explanation = memory.mechanism.explain(task, decision, memory.state.slot)
        why = None if decision.admitted else ROWS.rejection_reason(decided.body)
        return Explained(decided, why, explanation)
