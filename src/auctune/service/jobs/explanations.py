"""Explain decisions afterwards, from the log."""

from collections import OrderedDict
from collections.abc import Mapping

from auctune.service.accounts.fair_queue import FairQueue
from auctune.service.storage.event_log import EventLog
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.gateway import DecisionExplanation, Explainer
from auctune.service.zones.core.loader import read_event

_MAX_CACHED = 1000


class ExplanationService:
    """Explains decisions, one at a time, and at most one pending request a user.

    Args:
        log: events.
        explainers: by zone, for the zones that explain their decisions.
    """

    def __init__(self, log: EventLog, explainers: Mapping[str, Explainer]) -> None:
        self._log = log
        self._explainers = explainers
        self._turns = FairQueue("explanation")
        self._cache: OrderedDict[str, DecisionExplanation] = OrderedDict()

    async def get(self, job: str, user: str) -> DecisionExplanation | None:
        """Explain the decision on a job; None: there is none, or its zone is gone.

        Args:
            job: id of the job.
            user: id of the user who asks.

        Raises:
            TooManyError: if another request of this user is pending.
        """
        if (known := self._cache.get(job)) is not None:
            return known
        found = await self._turns.run(user, lambda: self._explain(job))
        if found is not None:
            self._cache[job] = found
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return found

    def _explain(self, job: str) -> DecisionExplanation | None:
        if (known := self._cache.get(job)) is not None:
            return known
        rows = self._log.read_job(job)
        decided = next((read_event(row) for row in rows if row.kind == EventType.DECIDED), None)
        if decided is None or decided.zone not in self._explainers:
            return None
        return self._explainers[decided.zone].explain(decided)
