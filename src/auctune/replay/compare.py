"""Ranges of a zone's log, their verification and the comparison of mechanisms on them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar, Generic, TypeVar

from auctune.domain import InputError
from auctune.engine.unix_time import SlotClock
from auctune.replay.verify import LogVerifier, VerificationResult, noop
from auctune.service.config.zone import AUCTION, ZoneConfig
from auctune.service.storage import Snapshots
from auctune.service.storage.event_log import EventLog, EventType, ZoneEvent
from auctune.service.zones.core.snapshots import created_event, read_event
from auctune.sim.comparison import Entry


class LogRange:
    """A range of slots in a zone's log, read page by page on each iteration.

    Events that are appended after construction are not part of it.

    Args:
        begin: unix time; slots that begin earlier are excluded. `None`: from the first slot.
        end: unix time; slots that begin at it or later are excluded. `None`: to the newest slot.

    Attributes:
        opened: body of the zone's first event.
        clock: the zone's slots; its time is fixed.
        first_slot, last_slot: of the range; `last_slot` is `None` without `end`.
        until: number of the log's last event.

    Raises:
        InputError: if the log has no such zone.
    """

    def __init__(
        self, zone: str, log: EventLog, begin: float | None = None, end: float | None = None
    ) -> None:
        opened = created_event(zone, log)
        if opened is None:
            known = ", ".join(log.zones()) or "none"
            raise InputError("zone", f"the log has no zone {zone!r}", f"one of {known}")
        self.zone, self.log = zone, log
        self.opened: dict[str, Any] = opened.body
        # Logs from before there were kinds are of auctions.
        self.kind: str = opened.body.get("kind", AUCTION)
        epoch, seconds = opened.body["epoch"], opened.body["slot_seconds"]
        self.clock = SlotClock(epoch, seconds, lambda: epoch)
        self.first_slot = 0 if begin is None else max(0, self.clock.first_slot_from(begin))
        self.last_slot = None if end is None else self.clock.first_slot_from(end) - 1
        self.until = log.last_seq(zone)

    @property
    def newest_slot(self) -> int:
        """The last slot of the range in the log; before `first_slot` if the range is empty."""
        (row,) = self.log.read_zone(self.zone, self.until - 1, self.until)
        begun = slot_of(read_event(row))
        return begun if self.last_slot is None else min(begun, self.last_slot)

    @property
    def last_seq_before(self) -> int:
        """Number of the last event before the range."""
        first = self.log.first_seq(self.zone, self.first_slot)
        return self.until if first is None else min(self.until, first - 1)

    def events(self, after: int = 0) -> Iterator[ZoneEvent]:
        """Yield the zone's events up to the range's end, those before the range included."""
        events = map(read_event, self.log.read_zone(self.zone, after, self.until))
        last = self.last_slot
        return takewhile(lambda event: last is None or slot_of(event) <= last, events)

    def contains(self, event: ZoneEvent) -> bool:
        """Return whether an event of `events` is in the range, and not before it."""
        return slot_of(event) >= self.first_slot

    def count(self, event_type: str, after: int = 0) -> int:
        """Count the events of a type in the log, those before the range included."""
        return self.log.count(self.zone, event_type, after, self.until)


def slot_of(event: ZoneEvent) -> int:
    """Return the slot of an event; the event that begins a slot belongs to that slot."""
    return int(event.body["slot"]) if event.type == EventType.SLOT_STARTED else event.slot


Tick = Callable[[], None]
Progress = Callable[[str, int | None], Tick | None]
"""Begins a stage, given its label and number of steps; returns what to call after each step."""

Row = tuple[str, str, str]
"""Header, attribute of an outcome, and format of its value."""

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Input of a replay: a range, the snapshots of its log, and the zone in auctune.toml."""

    log: LogRange
    snapshots: Snapshots
    config: ZoneConfig | None


@dataclass(frozen=True, slots=True)
class Comparison(Generic[O]):
    """The outcome of a range as recorded, and under other mechanisms."""

    mechanism: str
    recorded: O
    others: tuple[tuple[Entry, O], ...]


class ZoneReplay(ABC, Generic[O]):
    """Replay of a range of a zone's log; one subclass for each kind of zone."""

    rows: ClassVar[tuple[Row, ...]]
    """Rows of the table of a comparison."""

    skipped: ClassVar[str] = ""
    """Why jobs may be skipped in a comparison."""

    def __init__(self, source: ReplayInput) -> None:
        self.source = source
        self.log = source.log

    @property
    @abstractmethod
    def basis(self) -> str:
        """Basis of the decisions in a verification, as a short text."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The recorded mechanism."""

    @property
    def num_skipped(self) -> int | None:
        """Jobs that are not compared, or None if every bid is."""
        return None

    @abstractmethod
    def check(self, entry: Entry) -> None:
        """Check a mechanism and its settings without running it; raise InputError."""

    @abstractmethod
    def verifier(self) -> LogVerifier[Any, Any]:
        """Return a verifier whose state is that of the zone at or before the range's begin."""

    @abstractmethod
    def recorded_outcome(self, progress: Progress) -> O:
        """Return the outcome as recorded."""

    @abstractmethod
    def outcome_under(self, entry: Entry, progress: Progress) -> O:
        """Return the outcome of the same range under another mechanism."""

    def verify(self, progress: Progress) -> VerificationResult:
        """Verify the range; raise InputError if the service cannot have written an event."""
        verifier, log = self.verifier(), self.log
        after = verifier.state.seq
        tick = progress(log.zone, log.count(EventType.DECIDED, after))
        return verifier.verify_log(log.events(after), log.contains, tick or noop)

    def compare(self, entries: Sequence[Entry], progress: Progress) -> Comparison[O]:
        recorded = self.recorded_outcome(progress)
        others = [(one, self.outcome_under(one, progress)) for one in entries]
        return Comparison(self.mechanism, recorded, tuple(others))


AnyReplay = ZoneReplay[Any]
