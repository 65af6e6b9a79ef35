"""Jobs of a rented zone, as its log tells of them: what another policy can be tried on."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.run.rental.order import JobTerms
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.spot.job import CAP_REACHED, SpotEventType


@dataclass
class LoggedRental:
    """One admitted job.

    Attributes:
        id: the job's.
        first: its first slot.
        terms: what the policy was asked about.
        policy, forecast: by which it rented.
        unit_price: of an on-demand instance for a slot, to its owner.
        held: the most that could be charged.
        charged: in all.
        finish: when its last row was trained, in its slots; none: it was not.
        is_capped: whether the cap ended it.
        is_disturbed: whether its owner or the service stepped in.
    """

    id: str
    first: int
    terms: JobTerms
    policy: str
    forecast: str
    unit_price: float
    held: Money
    charged: Money = ZERO
    finish: float | None = None
    is_capped: bool = False
    is_disturbed: bool = False

    @property
    def tells(self) -> bool:
        """Whether what came of it is by its policy alone, and all of it."""
        return not self.is_disturbed and (self.is_capped or self.finish is not None)

    @classmethod
    def of(cls, event: ZoneEvent) -> "LoggedRental":
        """As it was admitted."""
        body = event.body
        return cls(
            id=str(event.job),
            first=body["first"],
            terms=JobTerms.from_record(body["terms"]),
            policy=body["renting"]["policy"],
            forecast=body["renting"]["forecast"],
            unit_price=body["unit_price"],
            held=Money(body["held"]),
        )

    def hear(self, event: ZoneEvent) -> None:
        """Take over what happened to it."""
        if event.kind == MeteredEventType.METERED:
            self.charged += Money(event.body["amount"])
            self.is_disturbed |= event.body["missed"]
        elif event.kind == SpotEventType.ENDED:
            self.finish = event.body["finish"]
        elif event.kind == EventType.FAILED and event.body["code"] == CAP_REACHED:
            self.is_capped = True
        elif event.kind in (EventType.PAUSED, EventType.CANCELLED, EventType.FAILED):
            self.is_disturbed = True


@dataclass
class LoggedRentals:
    """Jobs by id.

    Attributes:
        jobs: admitted ones.
    """

    jobs: dict[str, LoggedRental] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[ZoneEvent], first_slot: int) -> "LoggedRentals":
        """Those that were admitted in or after a slot."""
        found = cls()
        for event in events:
            found._hear(event, first_slot)
        return found

    @property
    def telling(self) -> list[LoggedRental]:
        """Those whose end is on record and came by their policy alone."""
        return [job for job in self.jobs.values() if job.tells]

    def _hear(self, event: ZoneEvent, first_slot: int) -> None:
        if event.kind == EventType.DECIDED and event.body["decision"]["admitted"]:
            if event.slot >= first_slot:
                self.jobs[str(event.job)] = LoggedRental.of(event)
        elif event.job in self.jobs:
            self.jobs[str(event.job)].hear(event)
