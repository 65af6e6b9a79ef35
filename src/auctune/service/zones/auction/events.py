"""Events of an auction zone. Cells, tasks and arrays are recorded without loss."""

import base64
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer, PlainValidator

from auctune.domain import Cell, Decision, Money, Task
from auctune.engine.records import decision_record, read_decision
from auctune.service.datasets.repairer import Repair
from auctune.service.storage.events import Record
from auctune.service.zones.auction.job import cell_records, read_cells, read_task, task_record
from auctune.service.zones.core.events import (
    EventData,
    JobDecided,
    JobPaused,
    JobResumed,
    Size,
    SlotStarted,
)
from auctune.service.zones.core.job import GivenUp


class AuctionEventType(StrEnum):
    """Types of events of auction zones only."""

    PRICES_UPDATED = "prices.updated"
    REPAIRED = "job.repaired"
    VENDOR_CHANGED = "job.vendor_changed"
    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    NODE_LOST = "node.lost"
    NODE_RETURNED = "node.returned"


def _write_array(array: Any) -> Record:
    # Compressed bytes in base 64: numbers as text would be three times as large.
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), level=1)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(packed).decode(),
    }


def _read_array(record: Record) -> Any:
    data = zlib.decompress(base64.b64decode(record["data"]))
    # A copy: an array over bytes is read-only.
    return np.frombuffer(data, dtype=record["dtype"]).reshape(record["shape"]).copy()


Array = Annotated[Any, PlainValidator(_read_array), PlainSerializer(_write_array)]
Cells = Annotated[tuple[Cell, ...], PlainValidator(read_cells), PlainSerializer(cell_records)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionSlotStarted(SlotStarted):
    """A slot began: `SlotAdvanced` of the mechanism.

    Attributes:
        energy_cost: by node type, of the slots that entered the horizon.
    """

    energy_cost: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesUpdated(EventData):
    """The mechanism updated its prices: its `PricesLearned`."""

    type = AuctionEventType.PRICES_UPDATED

    slot: int
    lesson: dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionDecided(JobDecided):
    """A bid was decided on: `Offered` of the mechanism.

    Attributes:
        offers: vendors' ids of their offers, by vendor.
        decision: of the mechanism, or over the budget.
        earliest: as of `earliest_feasible_slot`.
        line: deadline and schedule of the accepted line of a menu, or None.
    """

    size: Size
    task: Annotated[Task, PlainValidator(read_task), PlainSerializer(task_record)]
    offers: dict[str, str] = field(default_factory=dict)
    decision: Annotated[Decision, PlainValidator(read_decision), PlainSerializer(decision_record)]
    budget_remaining: Money | None
    earliest: int | None
    line: Record | None = None

    @property
    def is_admitted(self) -> bool:
        return self.decision.admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRepaired(EventData):
    """A vendor delivered repaired data."""

    type = AuctionEventType.REPAIRED

    file: str
    report: Record
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorChanged(EventData):
    """Another vendor repairs the data of a job, instead of the one that failed."""

    type = AuctionEventType.VENDOR_CHANGED

    failed: str
    why: str
    repair: Repair


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsReleased(EventData):
    """Cells of a job were released: `Released` of the mechanism.

    Attributes:
        given_up, found: cells; none were found.
        plan: work and first slot that cells were sought for, or None if none were sought.
    """

    type = AuctionEventType.RELEASED

    given_up: Cells
    found: Cells = ()
    plan: Record | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsReplanned(EventData):
    """A job got other cells: `Replanned` of the mechanism."""

    type = AuctionEventType.REPLANNED

    given_up: Cells
    found: Cells
    why: str
    plan: Record | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionPaused(JobPaused):
    """A job was paused, and released its cells; `given_up_for` is what they were worth."""

    given_up: Cells
    found: Cells = ()
    given_up_for: GivenUp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionResumed(JobResumed):
    """A job was resumed, and got cells."""

    given_up: Cells = ()
    found: Cells
    plan: Record | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDown(EventData):
    """A node was lost or drained by an operator: `NodeLost` of the mechanism."""

    type = AuctionEventType.NODE_LOST

    node: str
    why: str
    drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUp(EventData):
    """A node is sold again: `NodeReturned` of the mechanism."""

    type = AuctionEventType.NODE_RETURNED

    node: str
