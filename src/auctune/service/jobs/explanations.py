"""Explanations of decisions, computed from the log."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from auctune.service.accounts.fair_queue import FairQueue
from auctune.service.storage.event_log import EventLog
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.explainer import DecisionExplanation, Explainer
from auctune.service.zones.core.restore import read_event

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

        None: there is no decision yet, or its zone does not explain decisions or is closed.

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
