"""Decisions and schedules as plain JSON values, and back, without loss."""

from decimal import Decimal
from typing import Any

from auctune.domain import Cell, Decision, Reason, Schedule
from auctune.train.job import CurvePoint

Record = dict[str, Any]


def decision_record(decision: Decision) -> Record:
    """Everything a decision holds; money as text."""
    return {
        "task": decision.task,
        "admitted": decision.admitted,
        "payment": str(decision.payment),
        "price": None if decision.price is None else str(decision.price),
        "schedule": None if decision.schedule is None else schedule_record(decision.schedule),
        "value": decision.value,
        "surplus": decision.surplus,
        "reason": decision.reason,
    }


def read_decision(record: Record) -> Decision:
    """The decision that `decision_record` wrote."""
    schedule, price, reason = record["schedule"], record["price"], record["reason"]
    return Decision(
        task=record["task"],
        admitted=record["admitted"],
        payment=Decimal(record["payment"]),
        price=None if price is None else Decimal(price),
        schedule=None if schedule is None else read_schedule(schedule),
        value=record["value"],
        surplus=record["surplus"],
        reason=None if reason is None else Reason(reason),
    )


def schedule_record(schedule: Schedule) -> Record:
    """Vendor and cells."""
    return {
        "vendor": schedule.vendor,
        "cells": [{"slot": cell.slot, "node": cell.node} for cell in schedule.cells],
    }


def read_schedule(record: Record) -> Schedule:
    """The schedule that `schedule_record` wrote."""
    cells = tuple(Cell(cell["slot"], cell["node"]) for cell in record["cells"])
    return Schedule(cells, record["vendor"])


def loss_record(point: CurvePoint) -> Record:
    """A line of a loss curve."""
    return dict(zip(("step", "rows", "tokens", "loss", "token_accuracy"), point, strict=True))
