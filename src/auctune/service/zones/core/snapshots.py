"""Snapshots of zones, taken from time to time: a restart loads one, and folds later events.

Decisions are explained by the model as it was just before them: a snapshot and later events.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from auctune.domain import Explanation, InputError, write_snapshot
from auctune.engine.unix_time import SlotClock
from auctune.service.fair_queue import ESTIMATES, FairQueue
from auctune.service.storage import Committer, Snapshots
from auctune.service.storage.event_log import EventLog, EventRow, EventType, ZoneEvent
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.state import SnapshotWriter, ZoneModel
from auctune.service.zones.core.zone import AnyZone

M = TypeVar("M", bound=ZoneModel[Any, Any])

SNAPSHOT_INTERVAL = 20_000
"""Events of a zone between two snapshots: about a second's work for a restart."""


class Snapshotter:
    """Takes snapshots of one zone, after every `interval` of its events."""

    def __init__(
        self,
        actor: ZoneActor[AnyZone],
        clock: SlotClock,
        snapshots: Snapshots,
        committer: Committer,
        interval: int = SNAPSHOT_INTERVAL,
    ) -> None:
        self._actor = actor
        self._clock = clock
        self._snapshots = snapshots
        self._committer = committer
        self._interval = interval
        self._writer = SnapshotWriter()
        # Events of the model that are in the newest snapshot.
        self._num_saved = 0

    async def snapshot_if_due(self) -> None:
        """Take a snapshot if the next restart would have to fold many events."""
        while not await self._actor.call(self._prepare):
            # Requests are answered in between.
            pass
        saved = await self._actor.call(self._write)
        if saved is None:
            return
        seq, self._num_saved, snapshot = saved
        body = await asyncio.to_thread(write_snapshot, snapshot)
        batch = await asyncio.to_thread(
            self._snapshots.write_batch, self._actor.name, seq, self._clock.now(), body
        )
        self._committer.submit(batch)

    def _is_due(self, zone: AnyZone) -> bool:
        return zone.model.num_applied - self._num_saved >= self._interval

    def _prepare(self, zone: AnyZone) -> bool:
        return not self._is_due(zone) or self._writer.prepare(zone.model.state)

    def _write(self, zone: AnyZone) -> tuple[int, int, dict[str, Any]] | None:
        if not self._is_due(zone):
            return None
        return zone.model.seq, zone.model.num_applied, self._writer.write(zone.model)


def replay_until(
    zone: str, empty: Callable[[], M], log: EventLog, snapshots: Snapshots, until: int | None = None
) -> tuple[M, int]:
    """Return the model of a zone after its events, and how many of them were applied.

    The newest readable snapshot up to event `until` is loaded first.
    """
    snapshot = snapshots.load_latest(zone, lambda body: decode_snapshot(empty, body), until=until)
    model, count = empty() if snapshot is None else snapshot.state, 0
    for event in map(read_event, log.read_zone(zone, model.seq, until)):
        model.apply(event)
        count += 1
    return model, count


def decode_snapshot(empty: Callable[[], M], body: bytes) -> M:
    """Return the model of a snapshot.

    Raises:
        ValueError: if it is of an older release or of other settings; the log holds all of it.
    """
    model = empty()
    try:
        model.restore(body)
    except (InputError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    return model


def created_event(zone: str, log: EventLog) -> ZoneEvent | None:
    """Return the first event of a zone, or None if it was never created."""
    for row in log.read_zone(zone, page=1):
        event = read_event(row)
        assert event.type == EventType.ZONE_CREATED
        return event
    return None


def read_event(row: EventRow) -> ZoneEvent:
    """Decode an event of the log."""
    body = orjson.loads(row.body)
    return ZoneEvent(row.seq, row.zone, row.slot, row.at, row.type, row.job, body, row.version)


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
