"""Explanations of decisions, by the zone's model as it was just before them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from auctune.domain import Explanation
from auctune.service.accounts.fair_queue import FairQueue
from auctune.service.storage import EventLog, Snapshots
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.zones.core.restore import read_event, replay_until
from auctune.service.zones.core.state import ZoneModel

M = TypeVar("M", bound=ZoneModel[Any, Any])


@dataclass(frozen=True, slots=True)
class DecisionExplanation:
    """A decision, its reason, and its alternatives.

    Attributes:
        decided: the event.
        why: reason of a rejection, as a sentence; `None` for an admission.
        explanation: what the plan cost then, and what others would have cost.
    """

    decided: ZoneEvent
    why: str | None
    explanation: Explanation


class Explainer(Generic[M]):
    """Explains the decisions of one zone.

    A decision follows from the log alone. So the newest snapshot before it and the events after
    that are applied to a model of its own, and the zone serves requests meanwhile.

    Args:
        fresh: makes an empty model.
        log: read only.
        snapshots: of the log's zones.
        explain: returns the explanation of a `job.decided` event, given the model before it.
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
    """Explains decisions one at a time, with at most one pending request a user.

    Args:
        log: log of events.
        explainers: by zone, for the zones that explain their decisions.
    """

    def __init__(self, log: EventLog, explainers: Mapping[str, Explainer[Any]]) -> None:
        self._log = log
        self._explainers = explainers
        self._queue = FairQueue("explanation")
        self._cache: OrderedDict[str, DecisionExplanation] = OrderedDict()

    async def get(self, job: str, user: str) -> DecisionExplanation | None:
        """Explain the decision on a job for a user.

        Returns:
            The explanation, or None if there is no decision, or its zone does not explain
            decisions or is closed.

        Raises:
            QuotaExceededError: if another request of this user is pending.
        """
        if (cached := self._cache.get(job)) is not None:
            return cached
        explained = await self._queue.run(user, lambda: self._explain(job))
        if explained is not None:
            self._cache[job] = explained
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return explained

    def _explain(self, job: str) -> DecisionExplanation | None:
        if (cached := self._cache.get(job)) is not None:
            return cached
        rows = self._log.read_job(job)
        decided = next((read_event(row) for row in rows if row.type == EventType.DECIDED), None)
        if decided is None or decided.zone not in self._explainers:
            return None
        return self._explainers[decided.zone].explain(decided)
