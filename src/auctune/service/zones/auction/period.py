"""A period of a zone's log in domain terms: what the simulator goes through again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from auctune.domain import (
    Admission,
    Event,
    InputError,
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
from auctune.service.settings.zone_entry import AUCTION
from auctune.service.store.event_log import EventLog
from auctune.service.store.snapshots import Snapshots
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.market_events import to_market
from auctune.service.zones.auction.memory import fresh_zone
from auctune.service.zones.auction.records import read_cluster, read_task
from auctune.service.zones.auction.snapshot import load_zone
from auctune.service.zones.auction.state import ZoneState
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.restart import opening_of, read_event

_WHY: dict[str, Why] = {
    Kind.CANCELLED: Why.CANCELLED,
    Kind.PAUSED: Why.PAUSED,
    Kind.RESUMED: Why.RESUMED,
    AuctionKind.REPLANNED: Why.REPLANNED,
    AuctionKind.RELEASED: Why.RELEASED,
}


class LoggedPeriod:
    """A period of a zone's log, which is read page by page, as often as it is gone through.

    What is added to the log after this was made is no part of it.

    Args:
        zone: its name.
        log: to read.
        begin: unix time; slots that begin before are no part of it; none: the zone's beginning.
        end: unix time; nor are slots that begin at it or after it; none: now.

    Attributes:
        zone: its name.
        clock: its slots; tells no time.
        first_slot, last_slot: of the period; no last slot: the newest.
        until: number of the log's last event.

    Raises:
        InputError: if the log knows of no such zone, or it is no auction.
    """

    def __init__(
        self, zone: str, log: EventLog, begin: float | None = None, end: float | None = None
    ) -> None:
        opened = opening_of(zone, log)
        if opened is None:
            known = ", ".join(log.zones()) or "none"
            raise InputError("zone", f"the log knows of no {zone!r}", f"one of {known}")
        kind = opened.body.get("kind", AUCTION)
        if kind != AUCTION:
            expected = "an auction's zone: the others decide by no mechanism that could do it again"
            raise InputError("zone", f"{zone!r} is of kind {kind}", expected)
        self.zone = zone
        self._log = log
        self._opened = opened.body
        epoch, seconds = opened.body["epoch"], opened.body["slot_seconds"]
        self.clock = SlotClock(epoch, seconds, lambda: epoch)
        self.first_slot = 0 if begin is None else max(0, self.clock.first_from(begin))
        self.last_slot = None if end is None else self.clock.first_from(end) - 1
        self.until = log.last_seq(zone)

    @property
    def mechanism(self) -> str:
        """What decided, as the registry knows it."""
        return str(self._opened["mechanism"])

    @property
    def newest_slot(self) -> int:
        """The last slot of the period that is on record; before its first one: there is none."""
        (row,) = self._log.of_zone(self.zone, self.until - 1, self.until)
        begun = _slot(read_event(row))
        return begun if self.last_slot is None else min(begun, self.last_slot)

    def count_bids(self, period: RecordedPeriod) -> int:
        """How many decisions one goes through, those before the period included."""
        assert isinstance(period.happened, _Happenings)
        after = period.happened.begin().seq
        return self._log.count(self.zone, Kind.DECIDED, after, self.until)

    def whole(self) -> RecordedPeriod:
        """All from the zone's beginning on: how the period began is told before it."""
        cluster = read_cluster(self._opened["cluster"])
        return self._recorded(lambda: ZoneState(cluster))

    def shortest(self, snapshots: Snapshots) -> tuple[RecordedPeriod, Admission]:
        """As little as need be, and the mechanism that decided, as it stood before that.

        It begins behind the newest snapshot from before the period, or at the zone's beginning.
        """

        def read(body: bytes) -> tuple[bytes, Admission]:
            state, mechanism = fresh_zone(self._opened)
            load_zone(body, state, mechanism)
            return body, mechanism

        first = self._log.first_seq(self.zone, self.first_slot)
        last = self.until if first is None else min(self.until, first - 1)
        found = snapshots.newest(self.zone, read, until=last)
        if found is None:
            return self.whole(), fresh_zone(self._opened)[1]
        body, mechanism = found.state

        def begin() -> ZoneState:
            state, other = fresh_zone(self._opened)
            load_zone(body, state, other)
            return state

        return self._recorded(begin), mechanism

    def _recorded(self, begin: Callable[[], ZoneState]) -> RecordedPeriod:
        return RecordedPeriod(
            read_cluster(self._opened["cluster"]),
            self._opened["mechanism"],
            self._opened["settings"],
            self.first_slot,
            _Happenings(self.zone, self._log, begin, self.until, self.last_slot),
        )


@dataclass(frozen=True, slots=True)
class _Happenings:
    """What happened up to a slot's end, read anew each time; `begin` is where it starts from."""

    zone: str
    log: EventLog
    begin: Callable[[], ZoneState]
    until: int
    last_slot: int | None

    def __iter__(self) -> Iterator[Happened]:
        state, last = self.begin(), self.last_slot
        events = map(read_event, self.log.of_zone(self.zone, state.seq, self.until))
        within = takewhile(lambda event: last is None or _slot(event) <= last, events)
        return happened_of(within, state)


def happened_of(events: Iterator[ZoneEvent], state: ZoneState) -> Iterator[Happened]:
    """Events in domain terms.

    Args:
        events: of a zone, from its first one on.
        state: before them.
    """
    for event in events:
        told = to_market(event, state)
        found = _happened(event, told, state)
        state.apply(event)
        if found is not None:
            yield found


def _slot(event: ZoneEvent) -> int:
    return int(event.body["slot"]) if event.kind == Kind.SLOT_BEGAN else event.slot


def _happened(event: ZoneEvent, told: Event | None, state: ZoneState) -> Happened | None:
    if event.kind == Kind.DECIDED:
        body = event.body
        task, decision = read_task(body["task"]), read_decision(body["decision"])
        line = body["line"]
        chosen = None
        if line is not None and decision.schedule is not None:
            plan = read_schedule(line["schedule"])
            chosen = MenuLine(line["deadline"], decision.payment, plan)
        return BidMade(task, decision, event.slot, chosen)
    if event.kind in _WHY:
        if event.kind == Kind.CANCELLED and event.job not in state.jobs:
            return None
        assert told is None or isinstance(told, Released | Replanned)
        assert event.job is not None
        why, sought = _WHY[event.kind], event.body.get("plan") or {}
        work, first = sought.get("work"), sought.get("first", 0)
        return PlanChanged(told, event.job, why, event.slot, work, first)
    if event.kind == Kind.FAILED and event.body["refund"] and event.job in state.jobs:
        return Refunded(str(event.job), event.slot)
    if isinstance(told, SlotAdvanced | PricesLearned | NodeLost | NodeReturned):
        return told
    return None
