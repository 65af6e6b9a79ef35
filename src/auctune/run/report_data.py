"""What a finished (or interrupted) market run was, as report.json and report.html show it.

report.json, all amounts of money as strings with 4 decimals:

| key | value |
| --- | --- |
| version | 1 |
| title, base, mechanism | texts: the market's name, the base model, how it decided |
| slots, slot_seconds | the horizon: number of slots, and the length of one |
| nodes | [{id, type, compute (samples/slot), memory_gb (for adapters, base model taken off)}] |
| tasks | see below, in the order in which they were decided |
| totals | {tasks, admitted, done, welfare, revenue, vendor_cost, operating_cost, surplus, utilization {compute, memory}, tokens} |
| prices | {compute, memory}: [slot][node], money per sample and per GB-slot, at the end |
| price_history | [{slot, compute, memory}]: the same as each slot began, where it was recorded |
| utilization | {compute, memory}: [slot][node], share of capacity in use, 0 to 1 |
| notes | texts: what an operator should know |

A task: {id, state, arrival, deadline, bid, admitted, reason, payment, price, min_bid, vendor,
vendor_price, vendor_delay, operating_cost, market_price, value, surplus, schedule [{slot, node}],
finish, finished_slot, rows, tokens, steps, losses [{step, rows, tokens, loss}], validation
[{epoch, rows, loss}], adapter (relative path), repair (a vendor's report), notes}. What does not
apply is null or empty; a loss that is not finite is null.
"""  # noqa: E501 (a table's row cannot be broken)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.run.report_task import (
    LossPoint,
    ReportTask,
    TaskState,
    ValidationPoint,
    format_money,
)

__all__ = [
    "LossPoint",
    "MarketReport",
    "PriceSnapshot",
    "ReportNode",
    "ReportTask",
    "TaskState",
    "Totals",
    "ValidationPoint",
]

FloatArray = NDArray[np.float64]
VERSION = 1


@dataclass(frozen=True, slots=True)
class ReportNode:
    """A node: samples/slot, and GB left for adapters beside the base model."""

    id: str
    type: str
    compute: float
    memory_gb: float


@dataclass(frozen=True, slots=True, eq=False)
class PriceSnapshot:
    """Prices [slot, node] as they stood when slot `slot` began."""

    slot: int
    compute: FloatArray
    memory: FloatArray


@dataclass(frozen=True, slots=True)
class Totals:
    """The run in one row of numbers; utilization is the mean over nodes and slots, 0 to 1."""

    tasks: int
    admitted: int
    done: int
    welfare: Money
    revenue: Money
    vendor_cost: Money
    operating_cost: Money
    compute_utilization: float
    memory_utilization: float
    tokens: int

    @property
    def surplus(self) -> Money:
        """What the operator keeps: revenue less vendors' prices and operating cost."""
        return self.revenue - self.vendor_cost - self.operating_cost


@dataclass(frozen=True, slots=True, eq=False)
class MarketReport:
    """Everything that a report shows.

    Attributes:
        title: the market's name.
        base: the base model that all tasks share.
        mechanism: how it decided: "pdftsp, pricing exponential".
        slots, slot_seconds: the horizon.
        nodes: in market order; the columns of all arrays.
        tasks: in the order in which they were decided.
        compute_prices, memory_prices: [slot, node], money per sample and per GB-slot, at the end.
        compute_used, memory_used: [slot, node], share of the node's capacity, 0 to 1.
        price_history: prices as each slot began, where they were recorded.
        notes: what an operator should know: damaged checkpoints passed over, nodes lost.
    """

    title: str
    base: str
    mechanism: str
    slots: int
    slot_seconds: float
    nodes: tuple[ReportNode, ...]
    tasks: tuple[ReportTask, ...]
    compute_prices: FloatArray
    memory_prices: FloatArray
    compute_used: FloatArray
    memory_used: FloatArray
    price_history: tuple[PriceSnapshot, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (self.slots, len(self.nodes))
        for name in ("compute_prices", "memory_prices", "compute_used", "memory_used"):
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"{name} has shape {found}; expected [slot, node] = {shape}")
        known = {node.id for node in self.nodes}
        for task in self.tasks:
            for cell in task.cells:
                if cell.node not in known or not 0 <= cell.slot < self.slots:
                    raise ValueError(f"task {task.id!r}: cell {cell} is not in this market")

    @property
    def totals(self) -> Totals:
        """Sums over all tasks; welfare is bids less vendors' prices and operating cost."""
        admitted = [task for task in self.tasks if task.admitted]
        vendor_cost = sum((task.vendor_price for task in admitted), ZERO)
        operating_cost = sum((task.operating_cost for task in admitted), ZERO)
        return Totals(
            tasks=len(self.tasks),
            admitted=len(admitted),
            done=sum(task.state is TaskState.DONE for task in admitted),
            welfare=sum((task.bid for task in admitted), ZERO) - vendor_cost - operating_cost,
            revenue=sum((task.decision.payment for task in admitted), ZERO),
            vendor_cost=vendor_cost,
            operating_cost=operating_cost,
            compute_utilization=_mean(self.compute_used),
            memory_utilization=_mean(self.memory_used),
            tokens=sum(task.tokens for task in self.tasks),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as the module's docstring lists them."""
        return {
            "version": VERSION,
            "title": self.title,
            "base": self.base,
            "mechanism": self.mechanism,
            "slots": self.slots,
            "slot_seconds": self.slot_seconds,
            "nodes": [
                {"id": n.id, "type": n.type, "compute": n.compute, "memory_gb": n.memory_gb}
                for n in self.nodes
            ],
            "tasks": [task.to_json() for task in self.tasks],
            "totals": _totals_to_json(self.totals),
            "prices": {
                "compute": self.compute_prices.tolist(),
                "memory": self.memory_prices.tolist(),
            },
            "price_history": [
                {"slot": p.slot, "compute": p.compute.tolist(), "memory": p.memory.tolist()}
                for p in self.price_history
            ],
            "utilization": {
                "compute": self.compute_used.tolist(),
                "memory": self.memory_used.tolist(),
            },
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "MarketReport":
        """The report that `to_json` wrote.

        Raises:
            ValueError: if it was written by another version.
        """
        if values["version"] != VERSION:
            raise ValueError(f"report of version {values['version']}; expected {VERSION}")
        shape = (values["slots"], len(values["nodes"]))
        return cls(
            title=values["title"],
            base=values["base"],
            mechanism=values["mechanism"],
            slots=values["slots"],
            slot_seconds=values["slot_seconds"],
            nodes=tuple(ReportNode(**node) for node in values["nodes"]),
            tasks=tuple(ReportTask.from_json(task) for task in values["tasks"]),
            compute_prices=_read_array(values["prices"]["compute"], shape),
            memory_prices=_read_array(values["prices"]["memory"], shape),
            compute_used=_read_array(values["utilization"]["compute"], shape),
            memory_used=_read_array(values["utilization"]["memory"], shape),
            price_history=tuple(
                PriceSnapshot(
                    snapshot["slot"],
                    _read_array(snapshot["compute"], shape),
                    _read_array(snapshot["memory"], shape),
                )
                for snapshot in values["price_history"]
            ),
            notes=tuple(values["notes"]),
        )


def _mean(shares: FloatArray) -> float:
    return float(shares.mean()) if shares.size else 0.0


def _read_array(rows: Sequence[Sequence[float]], shape: tuple[int, int]) -> FloatArray:
    return np.asarray(rows, dtype=np.float64).reshape(shape)


def _totals_to_json(totals: Totals) -> dict[str, Any]:
    return {
        "tasks": totals.tasks,
        "admitted": totals.admitted,
        "done": totals.done,
        "welfare": format_money(totals.welfare),
        "revenue": format_money(totals.revenue),
        "vendor_cost": format_money(totals.vendor_cost),
        "operating_cost": format_money(totals.operating_cost),
        "surplus": format_money(totals.surplus),
        "utilization": {
            "compute": totals.compute_utilization,
            "memory": totals.memory_utilization,
        },
        "tokens": totals.tokens,
    }
