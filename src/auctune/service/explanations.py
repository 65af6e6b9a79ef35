"""Why a bid got its answer, told afterwards by its zone, one question after the other."""

from collections import OrderedDict
from collections.abc import Mapping

from auctune.service.store.event_log import EventLog
from auctune.service.user_turns import UserTurns
from auctune.service.zones.event import Kind
from auctune.service.zones.open_zone import Explained, Explainer
from auctune.service.zones.restart import read_event

_KEPT = 1000


class Explanations:
    """Explains decisions, one after the other, and one at a time for each user.

    Args:
        log: of events.
        explainers: of zones that explain theirs, by name.
    """

    def __init__(self, log: EventLog, explainers: Mapping[str, Explainer]) -> None:
        self._log = log
        self._explainers = explainers
        self._turns = UserTurns("explanation")
        self._known: OrderedDict[str, Explained] = OrderedDict()

    async def get(self, job: str, asker: str) -> Explained | None:
        """Why a job was decided as it was; none: it was not decided on, or its zone is gone.

        Args:
            job: its id.
            asker: user id.

        Raises:
            TooManyError: if another question of this user's is not answered yet.
        """
        if (known := self._known.get(job)) is not None:
            return known
        found = await self._turns.run(asker, lambda: self._explain(job))
        if found is not None:
            self._known[job] = found
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    def _explain(self, job: str) -> Explained | None:
        if (known := self._known.get(job)) is not None:
            return known
        rows = self._log.read_job(job)
        decided = next((read_event(row) for row in rows if row.kind == Kind.DECIDED), None)
        if decided is None or decided.zone not in self._explainers:
            return None
        return self._explainers[decided.zone].explain(decided)
