"""Explanations of decisions, by the zone's model as it was just before them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from auctune.domain import Explanation
from auctune.service.storage import EventLog, Snapshots
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.restore import replay_until
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
