"""Contents of report.json and report.html: a market run, finished or interrupted.

`MarketReport.to_json` writes the fields of the classes below under their names, arrays as
[slot][node], money as text with 4 decimals and a loss that is not finite as null. A task also has
`admitted`, `finish` and `market_price`; `version` and `totals` are beside the market's own fields.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, TypeAdapter

from auctune.domain import Cell, Money, Reason
from auctune.domain.money import ZERO, format_money
from auctune.engine.vendors import RepairReport

VERSION = 3

FloatArray = NDArray[np.float64]

_Amount = Annotated[Money, PlainSerializer(format_money)]
_Loss = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda loss: loss if math.isfinite(loss) else None),
]
_Cell = Annotated[Cell, PlainSerializer(lambda cell: cell._asdict())]
_Array = Annotated[
    FloatArray,
    PlainValidator(lambda rows: np.asarray(rows, dtype=np.float64)),
    PlainSerializer(lambda array: array.tolist()),
]


class TaskState(StrEnum):
    """Progress of a task."""

    REJECTED = "rejected"
    PLANNED = "planned"
    TRAINING = "training"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LossPoint:
    """Mean training loss and token accuracy of an optimizer step's batch.

    Rows and tokens are counted from the start.
    """

    step: int
    rows: int
    tokens: int
    loss: _Loss
    token_accuracy: float


@dataclass(frozen=True, slots=True)
class ValidationPoint:
    """Mean validation loss and token accuracy after an epoch (from 1) and so many rows."""

    epoch: int
    rows: int
    loss: _Loss
    token_accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTask:
    """A bid, its decision and its training.

    Attributes:
        id: name of the task.
        state: its progress.
        arrival, deadline, bid: as offered.
        reason: why it was rejected; None if admitted.
        payment: what its owner pays; 0 if rejected.
        price, min_bid, value, surplus: of the decision.
        vendor, vendor_price, vendor_delay: of the chosen quote; None and 0 without a vendor.
        operating_cost: of its plan, rounded as money is; 0 if rejected.
        schedule: its plan; empty if rejected.
        finished_slot: slot in which training ended; None before.
        rows, tokens, steps: trained so far.
        losses, validation: the loss curves so far.
        adapter: path of the adapter relative to the report's folder, with slashes.
        repair: report of the vendor; None if no data was repaired.
        notes: messages for its owner.
    """

    id: str
    state: TaskState
    arrival: int
    deadline: int
    bid: _Amount
    reason: Reason | None = None
    payment: _Amount = ZERO
    price: _Amount | None = None
    min_bid: _Amount | None = None
    vendor: str | None = None
    vendor_price: _Amount = ZERO
    vendor_delay: int = 0
    operating_cost: _Amount = ZERO
    value: float | None = None
    surplus: float | None = None
    schedule: tuple[_Cell, ...] = ()
    finished_slot: int | None = None
    rows: int = 0
    tokens: int = 0
    steps: int = 0
    losses: tuple[LossPoint, ...] = ()
    validation: tuple[ValidationPoint, ...] = ()
    adapter: str | None = None
    repair: RepairReport | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.admitted == (self.reason is None) == bool(self.schedule):
            raise ValueError(f"task {self.id!r}: state {self.state} does not fit its decision")
        if self.adapter is not None:
            path = PurePosixPath(self.adapter)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(
                    f"task {self.id!r}: adapter {self.adapter!r}; expected a path inside the "
                    "report's folder"
                )

    @property
    def admitted(self) -> bool:
        return self.state is not TaskState.REJECTED

    @property
    def finish(self) -> int | None:
        """The last slot of its plan; None if rejected."""
        return self.schedule[-1].slot if self.schedule else None

    @property
    def market_price(self) -> Money:
        """Payment less vendor's price and operating cost: the part for compute and memory.

        Below zero where a mechanism does not charge what running the plan costs.
        """
        return self.payment - self.vendor_price - self.operating_cost


@dataclass(frozen=True, slots=True)
class ReportNode:
    """A node: samples/slot, and GB left for adapters beside the base model."""

    id: str
    type: str
    compute: float
    memory_gb: float


@dataclass(frozen=True, slots=True, eq=False)
class Resources:
    """An array [slot, node] for compute and for memory."""

    compute: _Array
    memory: _Array


@dataclass(frozen=True, slots=True)
class Utilization:
    """Mean share in use over nodes and slots, 0 to 1."""

    compute: float
    memory: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all tasks.

    Attributes:
        welfare: bids less vendors' prices and operating cost.
        surplus: what the operator keeps: revenue less vendors' prices and operating cost.
    """

    tasks: int
    admitted: int
    done: int
    welfare: _Amount
    revenue: _Amount
    vendor_cost: _Amount
    operating_cost: _Amount
    surplus: _Amount
    utilization: Utilization
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class MarketReport:
    """A market run.

    Attributes:
        title: the market's name.
        base: the base model that all tasks share.
        mechanism: name and settings: "pdftsp, pricing exponential".
        slots, slot_seconds: the horizon.
        nodes: in market order; the columns of all arrays.
        tasks: in the order of their decisions.
        prices: at the end, money per sample and per GB-slot.
        utilization: share of each node's capacity in use, 0 to 1.
        notes: messages for the operator: damaged checkpoints passed over, nodes lost.
    """

    title: str
    base: str
    mechanism: str
    slots: int
    slot_seconds: float
    nodes: tuple[ReportNode, ...]
    tasks: tuple[ReportTask, ...]
    prices: Resources
    utilization: Resources
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (self.slots, len(self.nodes))
        for name in ("prices", "utilization"):
            for resource in ("compute", "memory"):
                found = getattr(getattr(self, name), resource).shape
                if found != shape:
                    raise ValueError(
                        f"{name}.{resource} has shape {found}; expected [slot, node] = {shape}"
                    )
        known = {node.id for node in self.nodes}
        for task in self.tasks:
            for cell in task.schedule:
                if cell.node not in known or not 0 <= cell.slot < self.slots:
                    raise ValueError(f"task {task.id!r}: cell {cell} is not in this market")

    @property
    def totals(self) -> Totals:
        admitted = [task for task in self.tasks if task.admitted]
        bids = sum((task.bid for task in admitted), ZERO)
        revenue = sum((task.payment for task in admitted), ZERO)
        vendor_cost = sum((task.vendor_price for task in admitted), ZERO)
        operating_cost = sum((task.operating_cost for task in admitted), ZERO)
        return Totals(
            tasks=len(self.tasks),
            admitted=len(admitted),
            done=sum(task.state is TaskState.DONE for task in admitted),
            welfare=bids - vendor_cost - operating_cost,
            revenue=revenue,
            vendor_cost=vendor_cost,
            operating_cost=operating_cost,
            surplus=revenue - vendor_cost - operating_cost,
            utilization=Utilization(
                _mean(self.utilization.compute), _mean(self.utilization.memory)
            ),
            tokens=sum(task.tokens for task in self.tasks),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as the module's docstring describes them."""
        values = _REPORT.dump_python(self, mode="json")
        for task, record in zip(self.tasks, values["tasks"], strict=True):
            record["admitted"] = task.admitted
            record["finish"] = task.finish
            record["market_price"] = format_money(task.market_price)
        return {
            "version": VERSION,
            **values,
            "totals": _TOTALS.dump_python(self.totals, mode="json"),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "MarketReport":
        """Return the report that `to_json` wrote.

        Raises:
            ValueError: if it was written by another version.
        """
        if values["version"] != VERSION:
            raise ValueError(f"report of version {values['version']}; expected {VERSION}")
        return _REPORT.validate_python(values)


def _mean(shares: FloatArray) -> float:
    return float(shares.mean()) if shares.size else 0.0


_REPORT = TypeAdapter(MarketReport)
_TOTALS = TypeAdapter(Totals)
