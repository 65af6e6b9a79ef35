"""Jobs of a zone: pending jobs, and what admitted jobs of all kinds have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from auctune.domain import InputError, Money, round_money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.ledger import Entry, charge, recognize_revenue, refund
from auctune.service.zones.core.metered import SLOWER_THAN_SOLD, Meter


class Phase(StrEnum):
    """Phase of an admitted job."""

    PLANNED = "planned"
    """It has not trained yet."""
    TRAINING = "training"
    """It has trained, and more is to come."""
    PAUSED = "paused"
    """Its owner paused it: nothing is reserved or run for it."""
    TRAINED = "trained"
    """Training is over; the result is being archived."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Training progress of a job.

    Attributes:
        rows, total_rows: trained, and to train, over all epochs, with the rows of the validation
            data, which follow those of each epoch; 0 if the total is unknown.
        tokens, steps: so far.
        first_loss, last_loss: of the first and the newest optimizer step, or None before them.
    """

    rows: int = 0
    total_rows: int = 0
    tokens: int = 0
    steps: int = 0
    first_loss: float | None = None
    last_loss: float | None = None

    def after(self, result: Mapping[str, Any]) -> "Progress":
        """Return the progress after a slot whose event `job.trained` has this `result`."""
        losses = result["losses"]
        return Progress(
            rows=result["rows"],
            total_rows=result["total_rows"],
            tokens=result["tokens"],
            steps=result["steps"],
            first_loss=self.first_loss if self.steps or not losses else losses[0][3],
            last_loss=losses[-1][3] if losses else self.last_loss,
        )


@dataclass(kw_only=True)
class PendingJob:
    """A job that is recorded and not decided on: its data are being inspected.

    `seq` is the number of the first event about it: its place in lists.
    """

    id: str
    seq: int
    owner: str
    created_at: float
    request: dict[str, Any]
    training: Training


@dataclass(kw_only=True)
class OpenJob(PendingJob, ABC):
    """An admitted job that has not ended."""

    phase: Phase = Phase.PLANNED
    progress: Progress = field(default_factory=Progress)
    notes: list[str] = field(default_factory=list)
    last_event_seq: int = 0

    @abstractmethod
    def admission_entries(self) -> tuple[Entry, ...]:
        """Return the ledger entries of its admission."""

    @abstractmethod
    def settlement_entries(self, *, refunded: bool) -> tuple[Entry, ...]:
        """Return the ledger entries of its end."""

    def continue_phase(self, *, has_trained: bool) -> None:
        """Leave the phase PAUSED."""
        if self.phase is Phase.PAUSED:
            self.phase = Phase.TRAINING if has_trained else Phase.PLANNED


@dataclass(kw_only=True)
class MeteredJob(OpenJob):
    """A job that pays for what it uses, up to a cap."""

    decision: dict[str, Any]
    meter: Meter

    @property
    def was_slowed(self) -> bool:
        """Return whether the service missed slots of the job, or trained them slower than sold."""
        return SLOWER_THAN_SOLD in self.notes

    def admission_entries(self) -> tuple[Entry, ...]:
        return self.meter.begin()

    def settlement_entries(self, *, refunded: bool) -> tuple[Entry, ...]:
        return self.meter.end(refunded=refunded)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Slots that a paused job gave up.

    Its new slots may be worth at most as much, or a pause would be a free option on dearer slots.

    Attributes:
        worth: what they would have cost at the prices of that moment, not the job's payment.
        work: samples or chunks that they were to train, > 0.
    """

    worth: Money
    work: float

    def check(self, price: Money, remaining: float) -> None:
        """Check that new slots are worth no more, at their price now.

        `remaining` work is more than was given up if the slot in which the job was paused failed:
        the market makes that good.
        """
        most = round_money(float(self.worth) * max(1.0, remaining / self.work))
        if price > most:
            raise InputError(
                "id",
                f"its new slots would cost {price} now, but its released slots were worth {most}",
                f"slots for at most {most}; the job stays paused: try again when slots are cheaper",
            )


@dataclass(kw_only=True)
class PrepaidJob(OpenJob):
    """A job that paid a binding price for its slots.

    Attributes:
        given_up: slots that it gave up when it was paused, or None if it never was.
    """

    out_of_memory: list[int] = field(default_factory=list)
    given_up: GivenUp | None = None

    @property
    @abstractmethod
    def payment(self) -> Money:
        """Price that was charged at its admission."""

    def admission_entries(self) -> tuple[Entry, ...]:
        return charge(self.owner, self.payment)

    def settlement_entries(self, *, refunded: bool) -> tuple[Entry, ...]:
        if refunded:
            return refund(self.owner, self.payment)
        return recognize_revenue(self.payment)


@dataclass(kw_only=True)
class SlotJob(PrepaidJob):
    """A prepaid job that trains in slots on nodes.

    Attributes:
        last_reported_slot: the newest slot whose result is recorded; -1 before the first.
    """

    size: DataSize
    last_reported_slot: int = -1

    @property
    def total_rows(self) -> int:
        """Rows to train and to validate, over all epochs."""
        return self.size.total_rows(self.training.epochs)
