"""A market run that looks like a real one: 8 bids, 2 nodes, 12 slots."""

import math
from decimal import Decimal

import numpy as np

from auctune.domain import Cell, Reason
from auctune.domain.dataset import RowKind
from auctune.domain.money import least_above
from auctune.engine.market.report_data import (
    FloatArray,
    LossPoint,
    MarketReport,
    ReportNode,
    ReportTask,
    Resources,
    TaskState,
    ValidationPoint,
)
from auctune.engine.vendors import Action, DroppedRow, DropReason, Example, RepairReport

SLOTS = 12
NODES = (
    ReportNode("node-a", "cpu-large", 960.0, 6.5),
    ReportNode("node-b", "cpu-small", 480.0, 3.0),
)
# name: arrival, deadline, bid, payment, vendor's price and delay, operating cost, cells, memory
ADMITTED = {
    "support-replies": (0, 5, "4.20", "2.1840", "0", 0, "0.4410", "a0 a1 a2 a3", 1.6),
    "legal-summaries": (0, 9, "6.00", "3.3075", "0.8200", 2, "0.5300", "b2 b3 a4 a5 a6", 2.2),
    "sql-from-text": (1, 4, "3.10", "1.9020", "0", 0, "0.2600", "b1 a2 a3", 1.2),
    "haiku": (2, 11, "1.25", "0.6120", "0.2000", 1, "0.1750", "b4 b5 b6", 0.8),
    "pt-en-medical-translation-v2": (3, 10, "5.40", "3.0188", "0", 0, "0.6120", "a5 a6 a7 a8", 2.4),
    "git-commit-messages": (5, 11, "2.60", "1.4006", "0", 0, "0.3300", "b7 b8 b9 a10", 1.1),
}
REJECTED = {
    "all-of-wikipedia": (1, 6, "9.00", None, Reason.NO_FEASIBLE_SCHEDULE),
    "cheap-chat": (4, 8, "0.75", "1.9340", Reason.UNPROFITABLE),
}


def make_report() -> MarketReport:
    """The sample, the same each time."""
    tasks = [_admitted(name, index) for index, name in enumerate(ADMITTED)]
    tasks += [_rejected(name) for name in REJECTED]
    tasks.sort(key=lambda task: task.arrival)
    rng = np.random.default_rng(3)
    compute_used, memory_used = _usage()
    compute_prices = 2e-4 * np.exp(3.2 * compute_used) * rng.uniform(0.9, 1.1, (SLOTS, 2))
    memory_prices = 4e-3 * np.exp(2.4 * memory_used) * rng.uniform(0.9, 1.1, (SLOTS, 2))
    return MarketReport(
        title="Corner market",
        base="tiny",
        mechanism="pdftsp, pricing exponential",
        slots=SLOTS,
        slot_seconds=20.0,
        nodes=NODES,
        tasks=tuple(tasks),
        prices=Resources(compute_prices, memory_prices),
        utilization=Resources(compute_used, memory_used),
        notes=("haiku: checkpoint 00000003 is damaged (checksum of optimizer.bin), passed over",),
    )


def make_repair() -> RepairReport:
    """What the house vendor did to one data set."""
    return RepairReport(
        vendor="house",
        kind=RowKind.COMPLETION,
        rows_in=412,
        rows_out=409,
        actions={Action.JSON: 7, Action.SCHEMA: 188, Action.TEXT: 23},
        dropped=(
            DroppedRow(17, DropReason.DUPLICATE, "as line 3"),
            DroppedRow(260, DropReason.NOT_JSON, '{"prompt": "Summarize § 12 of the'),
            DroppedRow(301, DropReason.NEAR_DUPLICATE, "nearly as line 122"),
        ),
        examples=(
            Example(
                4,
                (Action.JSON, Action.SCHEMA),
                "{'question': 'What is estoppel?', 'answer': 'A bar to denying a promise.',}",
                '{"prompt": "What is estoppel?\\n", "completion": "A bar to denying a promise."}',
            ),
        ),
    )


def _cells(text: str) -> tuple[Cell, ...]:
    return tuple(Cell(int(cell[1:]), f"node-{cell[0]}") for cell in text.split())


def _admitted(name: str, index: int) -> ReportTask:
    arrival, deadline, bid, payment, vendor_price, delay, operating, cells, _ = ADMITTED[name]
    vendor = "house" if delay else None
    schedule = _cells(cells)
    price = Decimal(payment)
    failed = name == "git-commit-messages"
    return ReportTask(
        id=name,
        state=TaskState.FAILED if failed else TaskState.DONE,
        arrival=arrival,
        deadline=deadline,
        bid=Decimal(bid).quantize(Decimal("0.0001")),
        payment=price,
        price=price,
        min_bid=least_above(price),
        value=float(Decimal(bid) - Decimal(vendor_price) - Decimal(operating)),
        surplus=float(Decimal(bid) - price),
        schedule=schedule,
        vendor=vendor,
        vendor_price=Decimal(vendor_price).quantize(Decimal("0.0001")),
        vendor_delay=delay,
        operating_cost=Decimal(operating),
        finished_slot=None if failed else schedule[-1].slot,
        rows=1600 + 200 * index,
        tokens=61_000 + 9_000 * index,
        steps=200 + 25 * index,
        losses=_curve(index, 200 + 25 * index, failed=failed),
        validation=tuple(
            ValidationPoint(epoch, 800 * epoch, 2.0 + 1.4 / epoch, 0.3 * epoch) for epoch in (1, 2)
        )
        if index % 2 == 0
        else (),
        adapter=None if failed else f"adapters/{name}",
        repair=make_repair() if name == "legal-summaries" else None,
        notes=("loss became infinite after 120 steps; the job ended, its node went on",)
        if failed
        else (),
    )


def _rejected(name: str) -> ReportTask:
    arrival, deadline, bid, price, reason = REJECTED[name]
    return ReportTask(
        id=name,
        state=TaskState.REJECTED,
        arrival=arrival,
        deadline=deadline,
        bid=Decimal(bid).quantize(Decimal("0.0001")),
        reason=reason,
        price=None if price is None else Decimal(price),
        min_bid=None if price is None else least_above(Decimal(price)),
    )


def _curve(index: int, steps: int, *, failed: bool) -> tuple[LossPoint, ...]:
    rng = np.random.default_rng(index)
    last = 120 if failed else steps
    points = [
        LossPoint(
            step,
            8 * step,
            300 * step,
            1.7 + 0.15 * index + 3.2 * math.exp(-step / 45) + float(rng.normal(0, 0.12)),
            0.6 - 0.5 * math.exp(-step / 45),
        )
        for step in range(1, last + 1)
    ]
    if failed:
        points.append(LossPoint(last + 1, 8 * last + 8, 300 * last + 300, math.inf, 0.0))
    return tuple(points)


def _usage() -> tuple[FloatArray, FloatArray]:
    compute, memory = np.zeros((SLOTS, 2)), np.zeros((SLOTS, 2))
    for *_, cells, memory_gb in ADMITTED.values():
        for slot, node in _cells(str(cells)):
            column = [n.id for n in NODES].index(node)
            compute[slot, column] += 0.48
            memory[slot, column] += float(memory_gb) / NODES[column].memory_gb
    return np.minimum(compute, 1.0), np.minimum(memory, 1.0)
