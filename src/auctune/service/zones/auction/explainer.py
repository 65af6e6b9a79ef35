"""Why a bid got its answer: the market is rebuilt as it was just before, and asked.

Decisions follow from the log alone, so that none has to be explained while others wait for theirs:
the newest snapshot before it and the events between are folded into a market of their own.
"""

from collections.abc import Callable

from auctune.run.records import read_decision
from auctune.service.storage import EventLog, Snapshots
from auctune.service.zones.auction.job import read_task
from auctune.service.zones.auction.projection import PROJECTION
from auctune.service.zones.auction.snapshots import AuctionModel
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.gateway import DecisionExplanation
from auctune.service.zones.core.loader import replay_until


class AuctionExplainer:
    """Of one zone.

    Args:
        fresh: makes an empty market.
        log: of events.
        snapshots: of zones.
    """

    def __init__(
        self, fresh: Callable[[], AuctionModel], log: EventLog, snapshots: Snapshots
    ) -> None:
        self._fresh = fresh
        self._log = log
        self._snapshots = snapshots

    def explain(self, decided: ZoneEvent) -> DecisionExplanation:
        """Why, by the market as it was just before."""
        until = decided.seq - 1
        memory, _ = replay_until(decided.zone, self._fresh, self._log, self._snapshots, until)
        task, decision = read_task(decided.body["task"]), read_decision(decided.body["decision"])
        explanation = memory.mechanism.explain(task, decision, memory.state.slot)
        why = None if decision.admitted else PROJECTION.rejection_reason(decided.body)
        return DecisionExplanation(decided, why, explanation)
