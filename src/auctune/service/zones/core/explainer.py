"""Explanations of decisions, by the zone's model as it was just before them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from auctune.domain import Explanation
from auctune.service.fair_queue import ESTIMATES, FairQueue
from auctune.service.storage import EventLog, Snapshots
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.snapshots import read_event, replay_until
from auctune.service.zones.core.state import ZoneModel

M = TypeVar("M", bound=ZoneModel[Any, Any])


@dataclass(frozen=True, slots=True)
class DecisionExplanation:
    """A recorded decision, the reason of a rejection as a sentence, and its explanation."""

    decided: ZoneEvent
    why: str | None
    explanation: Explanation


class Explainer(Generic[M]):
    """Explains the decisions of one zone, by `explain(model before it, event)`.

    A decision follows from the log alone. So the newest snapshot before it and the events after
    that are applied to a model of its own, and the zone serves requests meanwhile.
    """

    def __init__(
        self,
        fresh: Callable[[], M],
        log: EventLog,
        snapshots: Snapshots,
        explain: Callable[[M, ZoneEvent], Explanation],
    ) -> None:
        self._fresh = fresh
        self._log = log
        self._snapshots = snapshots
        self._explain = explain

    def explain(self, decided: ZoneEvent) -> DecisionExplanation:
        """Explain a decision; takes seconds, and may run on any thread."""
        until = decided.seq - 1
        model, _ = replay_until(decided.zone, self._fresh, self._log, self._snapshots, until)
        is_admitted = decided.body["decision"]["admitted"]
        why = None if is_admitted else model.state.projection.rejection_reason(decided.body)
        return DecisionExplanation(decided, why, self._explain(model, decided))


_MAX_CACHED = 1000


class ExplanationService:
    """Explains decisions one at a time."""

    def __init__(self, log: EventLog, explainers: Mapping[str, Explainer[Any]]) -> None:
        self._log = log
        self._explainers = explainers
        self._queue = FairQueue("explanations", 1, max_waiting=1)
        self._cache: OrderedDict[str, DecisionExplanation] = OrderedDict()

    async def get(self, job: str, user: str) -> DecisionExplanation | None:
        """Explain the decision on a job for a user.

        Return None if there is no decision, or its zone does not explain decisions or is closed.
        """
        if (cached := self._cache.get(job)) is not None:
            return cached
        explained = await self._queue.run(user, lambda: self._explain(job), executor=ESTIMATES)
        if explained is not None:
            self._cache[job] = explained
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return explained

    def _explain(self, job: str) -> DecisionExplanation | None:
        if (cached := self._cache.get(job)) is not None:
            return cached
        # Other events can be large: a job has hundreds of steps in each slot.
        rows = self._log.read_job(job, limit=1, type_=EventType.DECIDED)
        decided = next(map(read_event, rows), None)
        if decided is None or decided.zone not in self._explainers:
            return None
        return self._explainers[decided.zone].explain(decided)
