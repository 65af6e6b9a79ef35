"""Events of a zone: what is recorded in the log, and what state is folded from.

Each type of event is a dataclass whose fields are the body in the log. Here are those of all kinds
of zones; a kind declares its own in its `events.py`, and adds fields to some of these.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.money import STEP, ZERO
from auctune.service.jobs.request import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import EventType, Record
from auctune.service.zones.core.job import MeteredDecision, SlotResult

T = TypeVar("T")


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def adapter(of: type[T]) -> TypeAdapter[T]:
    """Return the adapter that reads and writes values of a type as JSON; money is text."""
    if of not in _ADAPTERS:
        _ADAPTERS[of] = TypeAdapter(of)
    return _ADAPTERS[of]


Size = Annotated[
    DataSize, PlainValidator(DataSize.from_record), PlainSerializer(DataSize.to_record)
]
"""Size of data, recorded without the fields that have their default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventData:
    """Typed body of an event."""

    __pydantic_config__: ClassVar[Record] = {"extra": "forbid"}

    type: ClassVar[str]

    def body(self) -> Record:
        """Return the fields as JSON values."""
        body: Record = adapter(type(self)).dump_python(self, mode="json")
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStarted(EventData):
    """A slot began."""

    type = EventType.SLOT_STARTED

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReceived(EventData):
    """A job was recorded as pending."""

    type = EventType.RECEIVED

    owner: str
    request: Record
    training: Training
    idempotency_key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecided(EventData, ABC):
    """A job was admitted or rejected. A kind adds `decision`, and what it was made from."""

    type = EventType.DECIDED

    owner: str
    request: Record
    training: Training
    idempotency_key: IdempotencyKey | None = None

    @property
    @abstractmethod
    def is_admitted(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredDecided(JobDecided):
    """A metered job was admitted or rejected, by its estimate."""

    size: Size
    decision: MeteredDecision
    budget_remaining: Money | None

    @property
    def is_admitted(self) -> bool:
        return self.decision.admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTrained(EventData):
    """A slot of a job was trained."""

    type = EventType.TRAINED

    node: str
    slot: int
    seconds: float
    result: SlotResult


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetered(EventData):
    """A job was charged for what it used; charges are numbered by `slot`, increasing."""

    type = EventType.METERED

    slot: int
    amount: Money
    cost: Money


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPaused(EventData):
    """A job was paused by its owner."""

    type = EventType.PAUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResumed(EventData):
    """A job was resumed by its owner."""

    type = EventType.RESUMED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(EventData):
    """A job was cancelled by its owner."""

    type = EventType.CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCheckpoint:
    """The adapter of an epoch, and the id of the file with it."""

    file: str
    metrics: EpochMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished(EventData):
    """A job succeeded. Its result is the last of its files; checkpoints are by epoch."""

    type = EventType.FINISHED

    files: list[str]
    checkpoints: list[EpochCheckpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(EventData):
    """A job failed; `param` is the field of the request that is wrong, if any."""

    type = EventType.FAILED

    code: str
    message: str
    param: str | None
    refund: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNoted(EventData):
    """Something was noted for a job's owner; about no job, for the operator of a run."""

    type = EventType.NOTE_ADDED

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory(EventData):
    """A slot of a job was lost to too little memory."""

    type = EventType.OUT_OF_MEMORY

    slot: int
    text: str


def token_charge(num_tokens: int, price: Money, carried: Money = ZERO) -> tuple[Money, Money]:
    """Return what tokens cost in whole steps of money, and the exact fraction that is left over.

    Args:
        price: of 1,000 tokens.
        carried: fraction that was left over before.
    """
    exact = carried + price * num_tokens / 1000
    amount = exact.quantize(STEP, rounding=ROUND_DOWN)
    return amount, (exact - amount) or ZERO


def old_token_amount(num_tokens: int, price: Money) -> Money:
    """Return what tokens cost by events without `carried`: rounded half-even."""
    return (price * num_tokens / 1000).quantize(STEP, rounding=ROUND_HALF_EVEN)


GB_MONTH = 10**9 * 30 * 86_400
"""Byte-seconds of a gigabyte for 30 days."""

ByteSeconds = Annotated[int, PlainSerializer(str)]
"""Recorded as text: those of a day may be more than a number of 64 bits."""


def storage_charge(byte_seconds: int, price: Money, carried: int = 0) -> tuple[Money, int]:
    """Return what storage costs in whole steps of money, and the exact rest that is left over.

    Args:
        price: of `GB_MONTH`.
        carried: rest that was left over before, in byte-seconds times steps of money.
    """
    steps, rest = divmod(carried + byte_seconds * int(price / STEP), GB_MONTH)
    return steps * STEP, rest


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsed(EventData):
    """A user was charged for the files that were stored in a period.

    Attributes:
        since, until: the period, at most a day (UTC), in unix seconds.
        byte_seconds: sum over the files of bytes times seconds in the period.
        price: of `GB_MONTH`.
        carried_before, carried: rests with which this charge and the next one begin; see
            `storage_charge`.
    """

    type = EventType.STORAGE_USED

    user: str
    team: str | None
    since: int
    until: int
    byte_seconds: ByteSeconds
    price: Money
    carried_before: int
    amount: Money
    carried: int

    @property
    def mean_gb(self) -> float:
        """Mean size of the files in the period."""
        return self.byte_seconds / (self.until - self.since) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensUsed(EventData):
    """A user was charged for answers of a model; `price` is that of 1,000 tokens.

    `carried` is the fraction of the smallest amount that the next charge for this user and model
    begins with; None for charges recorded in version 11 without it.
    """

    type = EventType.TOKENS_USED

    user: str
    key: str
    team: str | None = None
    model: str
    prompt_tokens: int
    completion_tokens: int
    price: Money
    amount: Money
    carried: Money | None
