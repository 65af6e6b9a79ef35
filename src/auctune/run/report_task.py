"""One bid of a market run and what became of it, as a report shows it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from auctune.domain import Cell, Decision, Money, Reason, Schedule
from auctune.domain.money import STEP, ZERO
from auctune.run.vendors import RepairReport


class TaskState(StrEnum):
    """How far a task has come."""

    REJECTED = "rejected"
    PLANNED = "planned"
    TRAINING = "training"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LossPoint:
    """Training loss after an optimizer step; rows and tokens are counted from the start."""

    step: int
    rows: int
    tokens: int
    loss: float


@dataclass(frozen=True, slots=True)
class ValidationPoint:
    """Validation loss at the end of an epoch (from 1), after so many rows."""

    epoch: int
    rows: int
    loss: float


@dataclass(frozen=True, slots=True)
class ReportTask:
    """One bid and what became of it.

    Attributes:
        arrival, deadline, bid: as offered.
        decision: the market's answer.
        state: how far it has come.
        vendor_price, vendor_delay: of the quote taken; 0 without a vendor.
        operating_cost: of its plan, rounded as money is; 0 for a rejected one.
        finished_slot: slot in which training really ended; none: not (yet).
        rows, tokens, steps: trained so far.
        losses, validation: the loss curves so far.
        adapter: where the adapter lies, relative to the report's folder, with slashes.
        repair: the vendor's account, where one did work.
        notes: what its owner should know.
    """

    arrival: int
    deadline: int
    bid: Money
    decision: Decision
    state: TaskState
    vendor_price: Money = ZERO
    vendor_delay: int = 0
    operating_cost: Money = ZERO
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
        if self.decision.admitted == (self.state is TaskState.REJECTED):
            raise ValueError(f"task {self.id!r}: state {self.state} does not fit its decision")
        if self.adapter is not None:
            path = PurePosixPath(self.adapter)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(
                    f"task {self.id!r}: adapter {self.adapter!r}; expected a path inside the "
                    "report's folder"
                )

    @property
    def id(self) -> str:
        """The task's name."""
        return self.decision.task

    @property
    def admitted(self) -> bool:
        """Whether the market took it."""
        return self.decision.admitted

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its plan; empty if rejected."""
        return self.decision.schedule.cells if self.decision.schedule else ()

    @property
    def vendor(self) -> str | None:
        """Who prepared its data."""
        return self.decision.schedule.vendor if self.decision.schedule else None

    @property
    def finish(self) -> int | None:
        """The last slot of its plan."""
        return self.decision.schedule.finish if self.decision.schedule else None

    @property
    def market_price(self) -> Money:
        """What is left of the payment for compute and memory themselves.

        Below zero where a mechanism does not charge what running the plan costs.
        """
        return self.decision.payment - self.vendor_price - self.operating_cost

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; keys: see `auctune.run.report_data`."""
        decision = self.decision
        return {
            "id": self.id,
            "state": str(self.state),
            "arrival": self.arrival,
            "deadline": self.deadline,
            "bid": format_money(self.bid),
            "admitted": decision.admitted,
            "reason": None if decision.reason is None else str(decision.reason),
            "payment": format_money(decision.payment),
            "price": None if decision.price is None else format_money(decision.price),
            "min_bid": None if decision.min_bid is None else format_money(decision.min_bid),
            "vendor": self.vendor,
            "vendor_price": format_money(self.vendor_price),
            "vendor_delay": self.vendor_delay,
            "operating_cost": format_money(self.operating_cost),
            "market_price": format_money(self.market_price),
            "value": decision.value,
            "surplus": decision.surplus,
            "schedule": [{"slot": cell.slot, "node": cell.node} for cell in self.cells],
            "finish": self.finish,
            "finished_slot": self.finished_slot,
            "rows": self.rows,
            "tokens": self.tokens,
            "steps": self.steps,
            "losses": [
                {"step": p.step, "rows": p.rows, "tokens": p.tokens, "loss": _finite(p.loss)}
                for p in self.losses
            ],
            "validation": [
                {"epoch": p.epoch, "rows": p.rows, "loss": _finite(p.loss)} for p in self.validation
            ],
            "adapter": self.adapter,
            "repair": None if self.repair is None else self.repair.to_json(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ReportTask":
        """The task that `to_json` wrote."""
        cells = tuple(Cell(cell["slot"], cell["node"]) for cell in values["schedule"])
        decision = Decision(
            task=values["id"],
            admitted=values["admitted"],
            payment=Decimal(values["payment"]),
            price=None if values["price"] is None else Decimal(values["price"]),
            schedule=Schedule(cells, values["vendor"]) if cells else None,
            value=values["value"],
            surplus=values["surplus"],
            reason=None if values["reason"] is None else Reason(values["reason"]),
        )
        return cls(
            arrival=values["arrival"],
            deadline=values["deadline"],
            bid=Decimal(values["bid"]),
            decision=decision,
            state=TaskState(values["state"]),
            vendor_price=Decimal(values["vendor_price"]),
            vendor_delay=values["vendor_delay"],
            operating_cost=Decimal(values["operating_cost"]),
            finished_slot=values["finished_slot"],
            rows=values["rows"],
            tokens=values["tokens"],
            steps=values["steps"],
            losses=tuple(
                LossPoint(p["step"], p["rows"], p["tokens"], _loss(p["loss"]))
                for p in values["losses"]
            ),
            validation=tuple(
                ValidationPoint(p["epoch"], p["rows"], _loss(p["loss"]))
                for p in values["validation"]
            ),
            adapter=values["adapter"],
            repair=None if values["repair"] is None else RepairReport.from_json(values["repair"]),
            notes=tuple(values["notes"]),
        )


def format_money(amount: Money) -> str:
    """With 4 decimals, as everywhere in auctune."""
    return f"{amount.quantize(STEP):f}"


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


def _loss(value: float | None) -> float:
    return math.nan if value is None else value
