"""Jobs of a timeshare zone, as its log tells of them, with all their losses."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from auctune.run.open_pool.how import How
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.timeshare.job import TimeshareEventType

_OWN_END = (How.REACHED, How.MISSED, How.ENDED)


@dataclass
class LoggedThread:
    """One job that joined the pool.

    Attributes:
        id: the job's.
        target_loss: that it was to reach.
        deadline: unit by whose beginning it had to be done.
        start: unit from which on it could learn; none: it has not joined.
        rate: batches a unit with the whole pool, as it was first measured.
        batches: learned at the end of each of its units.
        losses: of each; what was no number is left out.
        seconds: of the pool.
        end: unit in which it left, or stopped by its owner; none: it goes on.
        how: it left; none: it has not.
        is_paused: whether it ever was.
    """

    id: str
    target_loss: float
    deadline: int
    start: int | None = None
    rate: float = 0.0
    batches: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    learned: int = 0
    end: int | None = None
    how: str | None = None
    is_paused: bool = False

    @property
    def tells(self) -> bool:
        """Whether what came of it is by the shares that it had alone, and all of it."""
        return self.how in _OWN_END and not self.is_paused

    def hear(self, event: ZoneEvent) -> None:
        """Take over what happened to it."""
        body = event.body
        if event.kind == TimeshareEventType.JOINED:
            self.start, self.rate = body["unit"], body["rate"]
        elif event.kind == MeteredEventType.METERED:
            self.learned += body["batches"]
            self.seconds += body["seconds"]
            if body["loss"] is not None:
                self.batches.append(self.learned)
                self.losses.append(body["loss"])
        elif event.kind == TimeshareEventType.LEFT:
            self.how, self.end = body["how"], event.slot
        elif event.kind == EventType.PAUSED:
            self.is_paused = True
        elif event.kind in (EventType.CANCELLED, EventType.FAILED) and self.end is None:
            self.end = event.slot


def logged_threads(events: Iterable[ZoneEvent], first_slot: int) -> list[LoggedThread]:
    """Those that were taken in or after a slot."""
    found: dict[str, LoggedThread] = {}
    for event in events:
        if event.kind == EventType.DECIDED and event.body["decision"]["admitted"]:
            if event.slot >= first_slot:
                name, body = str(event.job), event.body
                target = body["decision"]["target_loss"]
                found[name] = LoggedThread(name, target, body["deadline_unit"])
        elif event.job in found:
            found[str(event.job)].hear(event)
    return list(found.values())
