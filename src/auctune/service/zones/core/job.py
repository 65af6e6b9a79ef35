"""Jobs of a zone: pending jobs, what admitted jobs of all kinds have in common, and meters.

Meters are of jobs that are charged for what they use.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import to_jsonable_python

from auctune.domain import InputError, Money, round_money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.unix_time import to_rfc3339
from auctune.service.jobs.quotes import QuoteSummary
from auctune.service.jobs.training import Training
from auctune.service.ledger import (
    Entry,
    charge,
    hold,
    meter,
    recognize_revenue,
    refund,
    refund_metered,
    release,
)

SLOWER_THAN_SOLD = (
    "the machine was slower than sold; what it missed is not charged, and neither is the job if it "
    "ends without an adapter for this"
)
"""Note for the owner of a metered job whose slots the service missed."""


@dataclass
class Meter:
    """Charges of one job, up to its cap. Methods return the ledger entries of what they do.

    Attributes:
        cap: maximum of all charges.
        next_slot: charges with lower numbers are recorded.
    """

    owner: str
    cap: Money
    charged: Money = ZERO
    next_slot: int = 0

    @property
    def remaining(self) -> Money:
        return self.cap - self.charged

    def is_charged(self, slot: int) -> bool:
        return slot < self.next_slot

    def begin(self) -> tuple[Entry, ...]:
        return hold(self.owner, self.cap)

    def charge(self, slot: int, amount: Money) -> tuple[Entry, ...]:
        """Charge an amount, at most `remaining`, for the slot with a number above all before it."""
        assert not self.is_charged(slot), slot
        assert ZERO <= amount <= self.remaining, (amount, self.remaining)
        self.next_slot = slot + 1
        self.charged += amount
        return meter(self.owner, amount)

    def give_back(self, amount: Money) -> tuple[Entry, ...]:
        """Refund a part of the charges, for what the service did not do; it is on hold again."""
        assert ZERO <= amount <= self.charged, (amount, self.charged)
        self.charged -= amount
        return refund_metered(self.owner, amount) + hold(self.owner, amount)

    def lower(self, held: Money) -> tuple[Entry, ...]:
        """Lower the cap so that `held` remains on hold; release the rest."""
        assert ZERO <= held <= self.remaining, (held, self.remaining)
        released, self.cap = self.remaining - held, self.charged + held
        return release(self.owner, released)

    def end(self, *, refunded: bool) -> tuple[Entry, ...]:
        """Release what was not charged; refund what was if the service failed the job."""
        back = refund_metered(self.owner, self.charged) if refunded else ()
        return self.lower(ZERO) + back


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost and finish of a job. Not binding.

    Attributes:
        p90_cost: cost that is not exceeded with probability 0.9.
        finish: median of the finish, in unix time.
        finish_p90: finish that is kept with probability 0.9, in unix time.
        risk: probability in [0, 1] that the job is late or not done.
        price_per_pool_second: price of a pool's time, or None in zones without a pool.
        success_probability: probability that a loss target is met by the deadline, or None.
    """

    expected_cost: Money
    p90_cost: Money
    finish: float
    finish_p90: float
    risk: float
    price_per_pool_second: Money | None = None
    success_probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredDecision:
    """Decision on a metered job.

    Attributes:
        reason: a `Reason` or one of the kind, or None if it is admitted.
        max_cost: maximum of all charges; None for the job of a run without a service.
        min_max_cost: the maximum that would have been enough, if it was too low.
        estimate: by which it was decided on; None if there was none.
    """

    admitted: bool
    reason: str | None = None
    max_cost: Money | None = None
    min_max_cost: Money | None = None
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class EstimateOffer:
    """An estimate as an offer; it has no lines."""

    estimate: Estimate
    cap: Money | None

    @property
    def size(self) -> int:
        return 0

    @property
    def unavailable_reason(self) -> str | None:
        need = self.estimate.p90_cost
        if self.cap is None or need <= self.cap:
            return None
        return f"it may cost {need}, above the cap of {self.cap}"

    @property
    def summary(self) -> QuoteSummary | None:
        if self.unavailable_reason is not None:
            return None
        found = self.estimate
        return QuoteSummary(found.p90_cost, found.finish_p90, found.risk)

    def to_response(self) -> dict[str, Any]:
        return {"lines": [], "estimate": estimate_view(to_jsonable_python(self.estimate), self.cap)}


def reserved_amount(cap: Money, remaining: Money | None) -> Money:
    """Return the maximum that a job can be charged: it is put on hold at admission."""
    return cap if remaining is None else min(cap, remaining)


def estimate_view(record: dict[str, Any], cap: Money | str | None) -> dict[str, Any]:
    """Return a recorded estimate as `EstimateResponse` of the API."""
    return {
        **record,
        "finish_time": to_rfc3339(record["finish"]),
        "finish_p90_time": to_rfc3339(record["finish_p90"]),
        "cap": None if cap is None else str(cap),
        "binding": False,
    }


SLOWER = "the machine was slower than sold"
"""Why the plan of a prepaid job was replaced."""

TRAINED_LATER = f"{SLOWER}; what it missed is trained later, without charge"
"""Note for the owner of a prepaid job whose slot was slower than sold."""

# Work is uneven, and profiles hold back a margin: a shortfall up to this share of what was sold
# needs no refund, no note and no new plan.
MAX_SHORTFALL = 0.1

_MIN_SPEED = 0.1
# Of the way back to full speed, in a slot without work.
_RECOVERY = 0.125


class SpeedEstimator:
    """Estimate of the speed of a zone's machines, relative to their profile.

    A slot slower than the estimate replaces it, a faster one moves it half way, and one without
    work moves it a little back to 1, so that a machine that was busy is sold again. It is not
    recorded: each decision and plan has the speed that it was made for, and a restart begins
    with 1.

    Attributes:
        speed: in [0.1, 1].
    """

    def __init__(self) -> None:
        self.speed = 1.0

    def record_slot(self, reached: float) -> None:
        """Record the speed that was reached in a slot, relative to the profile."""
        reached = min(1.0, max(_MIN_SPEED, reached))
        self.speed = min(reached, (self.speed + reached) / 2)

    def record_idle_slot(self) -> None:
        """Record a slot in which nothing was to be trained."""
        self.speed += _RECOVERY * (1.0 - self.speed)


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


LossPoint = tuple[int, int, int, float | None, float | None]
"""Step, rows, tokens, mean loss and token accuracy; JSON has no number for what is not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """Result of a slot of a job.

    Attributes:
        rows, total_rows: trained, and to train, over all epochs; see `Progress`.
        tokens, steps: so far.
        state: "training" or "suspended" if more is to come, "done" or "failed".
        losses: of each optimizer step, or in a pool of each time slice, without its accuracy.
        validation: epoch, rows, mean loss and token accuracy of each validation so far.
        note: for the owner, or empty.
        exported: whether a node has exported the adapter; None where the kind has no nodes.
    """

    rows: int
    total_rows: int
    tokens: int
    steps: int
    state: str
    losses: tuple[LossPoint, ...] = ()
    validation: tuple[tuple[int, int, float | None, float | None], ...] = ()
    note: str = ""
    exported: Annotated[bool | None, Field(exclude_if=lambda exported: exported is None)] = None


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

    def after(self, result: SlotResult) -> "Progress":
        """Return the progress after a slot with this result."""
        losses = result.losses
        return Progress(
            rows=result.rows,
            total_rows=result.total_rows,
            tokens=result.tokens,
            steps=result.steps,
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

    @property
    def state(self) -> str:
        """State in the job's row."""
        return self.phase.value

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

    decision: MeteredDecision
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
