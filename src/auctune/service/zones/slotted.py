"""A zone whose time goes by slots: what happens is booked in the newest that began.

Its jobs are paused and resumed in the same words, whatever they have in their slots.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from auctune.domain import InputError, Money, round_money
from auctune.service.zones.event import Kind
from auctune.service.zones.noting import Asks, NotingZone, Trains
from auctune.service.zones.phase import Phase

MAX_OUT_OF_MEMORY = 2
"""Slots in a row that a job may lose to too little memory before it fails."""


class Slotted(Protocol):
    """A state that knows slots."""

    @property
    def slot(self) -> int:
        """The newest slot that began; -1 before the first."""
        ...


class Phased(Trains, Protocol):
    """An admitted job."""

    @property
    def phase(self) -> Phase:
        """Where it stands."""
        ...


class HoldsSlots(Phased, Protocol):
    """An admitted job that paid for its slots ahead."""

    @property
    def out_of_memory(self) -> Sequence[int]:
        """Slots lost to too little memory since the job trained last."""
        ...


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Slots that a paused job gave up. Its new ones may be worth as much, or the pause would be a
    free option on dearer slots.

    Attributes:
        worth: what they would have cost at the prices of that moment, not the job's payment.
        work: what they were to train, in samples or chunks, > 0.
    """

    worth: Money
    work: float

    def check(self, price: Money, work_left: float) -> None:
        """That new slots are worth no more.

        Args:
            price: of the new slots, now.
            work_left: that they are to train. It is more than was given up if the slot in which
                the job was paused failed: the market makes that good.

        Raises:
            InputError: if they are worth more.
        """
        most = round_money(float(self.worth) * max(1.0, work_left / self.work))
        if price > most:
            raise InputError(
                "id",
                f"its new slots would cost {price} now, and the ones it gave up were worth {most}",
                f"slots for at most {most}; it stays paused: try again when slots are cheaper",
            )

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {"worth": str(self.worth), "work": self.work}

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> "GivenUp | None":
        """What `to_record` gave; `None` for `None`."""
        return None if record is None else cls(Money(record["worth"]), record["work"])


J = TypeVar("J", bound=Phased)
H = TypeVar("H", bound=HoldsSlots)
B = TypeVar("B", bound=Asks)


class SlottedZone(NotingZone[J, B]):
    """One zone, at its newest slot.

    Attributes:
        state: as it stands.
    """

    state: Slotted

    @abstractmethod
    def begin_slot(self, slot: int) -> None:
        """Begin a slot; those that passed by in which nobody was there to decide are left out."""

    @property
    def event_slot(self) -> int:
        """The newest that began."""
        return max(0, self.state.slot)

    def begin_slots(self) -> None:
        """Begin the current slot, if it has not begun."""
        now = self.clock.slot()
        if now > self.state.slot:
            self.begin_slot(now)

    def has_slot_before(self, deadline: float) -> bool:
        """Whether a slot is still to begin that ends by a deadline, in unix time."""
        self.begin_slots()
        return self.clock.last_slot_by(deadline) > self.state.slot

    def pausable_job(self, name: str) -> J:
        """A job that can be paused.

        Raises:
            InputError: if it is over, or trained, or paused already.
        """
        job = self._running(name)
        if job.phase is Phase.PAUSED:
            raise InputError("id", f"{name} is paused already", "a job that is not paused")
        if job.phase is Phase.TRAINED:
            raise InputError("id", f"{name} is trained already", "a job that is to train")
        return job

    def resumable_job(self, name: str) -> J:
        """A job that can be resumed.

        Raises:
            InputError: if it is over, or not paused.
        """
        job = self._running(name)
        if job.phase is not Phase.PAUSED:
            raise InputError("id", f"{name} is not paused", "a paused job")
        return job

    def _running(self, name: str) -> J:
        job = self.admitted_jobs.get(name)
        if job is None:
            raise InputError("id", f"{name} is not running", "an admitted job that is not over")
        return job


def lose_to_memory(zone: SlottedZone[H, B], name: str, slot: int, why: str, remedy: str) -> bool:
    """Record that memory ran out in a job's slot; return whether the job has failed for it.

    It fails, and is refunded, once this has happened in `MAX_OUT_OF_MEMORY` slots in a row: a
    job that never fits would hold slots until its deadline, and pay for none of them.

    Args:
        zone: whose job it is.
        name: of a job that is not over.
        slot: counts once, however often it was tried.
        why: for its owner.
        remedy: what its owner may change.
    """
    job = zone.admitted_jobs[name]
    if slot not in job.out_of_memory:
        zone.record(Kind.OUT_OF_MEMORY, name, {"slot": slot, "text": why})
    lost = len(job.out_of_memory)
    if lost < MAX_OUT_OF_MEMORY:
        return False
    zone.release_capacity(job)
    message = f"there was too little memory for it in {lost} slots in a row: {why}; {remedy}"
    zone.fail(name, "out_of_memory", message, None)
    return True
