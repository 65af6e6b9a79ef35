"""Why a bid got its answer, told afterwards: the market is rebuilt as it was, and asked.

Decisions follow from the log alone, so that none has to be explained while others wait for theirs:
the newest snapshot before it and the events between are folded into a market of their own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from auctune.domain import Admission, Explanation
from auctune.run.records import read_decision
from auctune.service.access.open_jobs import TooManyError
from auctune.service.store.event_log import EventLog
from auctune.service.store.snapshots import Snapshots
from auctune.service.zones.auction.records import read_task
from auctune.service.zones.auction.snapshot import load_zone
from auctune.service.zones.auction.state import ZoneState
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.restart import Fresh, fold, read_event

_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Explained:
    """A decision, and why.

    Attributes:
        decided: the event.
        explanation: what its plan cost then, and what others would have cost.
    """

    decided: ZoneEvent
    explanation: Explanation


class Explanations:
    """Explains decisions, one after the other, and one at a time for each user.

    Args:
        log: of events.
        snapshots: of zones.
        fresh: makes an empty market, by zone.
    """

    def __init__(self, log: EventLog, snapshots: Snapshots, fresh: Mapping[str, Fresh]) -> None:
        self._log = log
        self._snapshots = snapshots
        self._fresh = fresh
        self._turn = asyncio.Lock()
        self._asking: set[str] = set()
        self._known: OrderedDict[str, Explained] = OrderedDict()

    async def of(self, job: str, asker: str) -> Explained | None:
        """Why a job was decided as it was; none: it was not decided on, or its zone is gone.

        Args:
            job: its id.
            asker: user id.

        Raises:
            TooManyError: if another question of this user's is not answered yet.
        """
        if (known := self._known.get(job)) is not None:
            return known
        if asker in self._asking:
            raise TooManyError("another explanation of yours is being made; wait for it")
        self._asking.add(asker)
        try:
            return await self._in_turn(job)
        finally:
            self._asking.discard(asker)

    async def _in_turn(self, job: str) -> Explained | None:
        async with self._turn:
            found = self._known.get(job)
            if found is None:
                found = await asyncio.to_thread(self._explain, job)
                if found is None:
                    return None
                self._known[job] = found
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return found

    def _explain(self, job: str) -> Explained | None:
        rows = self._log.of_job(job)
        decided = next((read_event(row) for row in rows if row.kind == Kind.DECIDED), None)
        if decided is None or decided.zone not in self._fresh:
            return None
        state, mechanism = self._before(decided)
        task, decision = read_task(decided.body["task"]), read_decision(decided.body["decision"])
        return Explained(decided, mechanism.explain(task, decision, state.slot))

    def _before(self, event: ZoneEvent) -> tuple[ZoneState, Admission]:
        """A zone as it was just before an event."""
        fresh = self._fresh[event.zone]

        def read(body: bytes) -> tuple[ZoneState, Admission]:
            state, mechanism = fresh()
            load_zone(body, state, mechanism)
            return state, mechanism

        found = self._snapshots.newest(event.zone, read, until=event.seq - 1)
        state, mechanism = fresh() if found is None else found.state
        for row in self._log.of_zone(event.zone, after=state.seq, until=event.seq - 1):
            fold(read_event(row), state, mechanism)
        return state, mechanism
