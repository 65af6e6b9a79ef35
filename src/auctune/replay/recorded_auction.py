"""A period of a zone's log in domain terms: what the simulator goes through again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from auctune.domain import (
    Admission,
    Event,
    NodeLost,
    NodeReturned,
    Released,
    Replanned,
)
from auctune.domain.events import PricesLearned, SlotAdvanced
from auctune.domain.menu import MenuLine
from auctune.domain.recorded import (
    BidMade,
    Happened,
    PlanChanged,
    RecordedPeriod,
    Refunded,
    Why,
)
from auctune.run.records import read_decision, read_schedule
from auctune.service.storage.snapshots import Snapshots
from auctune.service.zones.auction.job import AuctionEventType, read_cluster, read_task
from auctune.service.zones.auction.mechanism_events import to_mechanism_event
from auctune.service.zones.auction.snapshots import fresh_zone, restore
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.period import Period

_WHY: dict[str, Why] = {
    EventType.CANCELLED: Why.CANCELLED,
    EventType.PAUSED: Why.PAUSED,
    EventType.RESUMED: Why.RESUMED,
    AuctionEventType.REPLANNED: Why.REPLANNED,
    AuctionEventType.RELEASED: Why.RELEASED,
}


class LoggedPeriod:
    """A period of an auction's log, in domain terms.

    Args:
        period: of a zone of this kind.
    """

    def __init__(self, period: Period) -> None:
        self._period = period
        self._opened = period.opened

    @property
    def mechanism(self) -> str:
        """What decided, as the registry knows it."""
        return str(self._opened["mechanism"])

    def count_bids(self, period: RecordedPeriod) -> int:
        """How many decisions one goes through, those before the period included."""
        assert isinstance(period.happened, _Happenings)
        after = period.happened.begin().seq
        return self._period.count(EventType.DECIDED, after)

    def whole(self) -> RecordedPeriod:
        """All from the zone's beginning on: how the period began is told before it."""
        cluster = read_cluster(self._opened["cluster"])
        return self._recorded(lambda: AuctionState(cluster))

    def shortest(self, snapshots: Snapshots) -> tuple[RecordedPeriod, Admission]:
        """As little as need be, and the mechanism that decided, as it stood before that.

        It begins behind the newest snapshot from before the period, or at the zone's beginning.
        """

        def read(body: bytes) -> tuple[bytes, Admission]:
            state, mechanism = fresh_zone(self._opened)
            restore(body, state, mechanism)
            return body, mechanism

        period = self._period
        first = period.log.first_seq(period.zone, period.first_slot)
        last = period.until if first is None else min(period.until, first - 1)
        found = snapshots.load_latest(period.zone, read, until=last)
        if found is None:
            return self.whole(), fresh_zone(self._opened)[1]
        body, mechanism = found.state

        def begin() -> AuctionState:
            state, other = fresh_zone(self._opened)
            restore(body, state, other)
            return state

        return self._recorded(begin), mechanism

    def _recorded(self, begin: Callable[[], AuctionState]) -> RecordedPeriod:
        return RecordedPeriod(
            read_cluster(self._opened["cluster"]),
            self._opened["mechanism"],
            self._opened["settings"],
            self._period.first_slot,
            _Happenings(self._period, begin),
        )


@dataclass(frozen=True, slots=True)
class _Happenings:
    """What happened up to a slot's end, read anew each time; `begin` is where it starts from."""

    period: Period
    begin: Callable[[], AuctionState]

    def __iter__(self) -> Iterator[Happened]:
        state = self.begin()
        return happened_of(self.period.events(state.seq), state)


def happened_of(events: Iterator[ZoneEvent], state: AuctionState) -> Iterator[Happened]:
    """Events in domain terms.

    Args:
        events: of a zone, from its first one on.
        state: before them.
    """
    for event in events:
        told = to_mechanism_event(event, state)
        found = _happened(event, told, state)
        state.apply(event)
        if found is not None:
            yield found


def _happened(event: ZoneEvent, told: Event | None, state: AuctionState) -> Happened | None:
    if event.kind == EventType.DECIDED:
        body = event.body
        task, decision = read_task(body["task"]), read_decision(body["decision"])
        line = body["line"]
        chosen = None
        if line is not None and decision.schedule is not None:
            plan = read_schedule(line["schedule"])
            chosen = MenuLine(line["deadline"], decision.payment, plan)
        return BidMade(task, decision, event.slot, chosen)
    if event.kind in _WHY:
        if event.kind == EventType.CANCELLED and event.job not in state.jobs:
            return None
        assert told is None or isinstance(told, Released | Replanned)
        assert event.job is not None
        why, sought = _WHY[event.kind], event.body.get("plan") or {}
        work, first = sought.get("work"), sought.get("first", 0)
        return PlanChanged(told, event.job, why, event.slot, work, first)
    if event.kind == EventType.FAILED and event.body["refund"] and event.job in state.jobs:
        return Refunded(str(event.job), event.slot)
    if isinstance(told, SlotAdvanced | PricesLearned | NodeLost | NodeReturned):
        return told
    return None
