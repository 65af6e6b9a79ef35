"""Decisions and schedules as plain JSON values, and back, without loss.

A cell is an object; pydantic writes a `NamedTuple` as a list, and reads both.
"""

from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter

from auctune.domain import Cell, Decision, Schedule
from auctune.train.job import CurvePoint

Record = dict[str, Any]

_DECISION = TypeAdapter(Decision)


def decision_record(decision: Decision) -> Record:
    """Everything a decision holds; money as text."""
    record: Record = _DECISION.dump_python(decision, mode="json")
    return record | {"schedule": decision.schedule and schedule_record(decision.schedule)}


def read_decision(record: Record) -> Decision:
    """The decision that `decision_record` wrote."""
    return _DECISION.validate_python(record)


def schedule_record(schedule: Schedule) -> Record:
    """Vendor and cells."""
    return {"vendor": schedule.vendor, "cells": cell_records(schedule.cells)}


def cell_records(cells: tuple[Cell, ...]) -> list[Record]:
    """Return cells as objects."""
    return [cell._asdict() for cell in cells]


def loss_record(point: CurvePoint) -> Record:
    """A line of a loss curve."""
    return dict(zip(("step", "rows", "tokens", "loss", "token_accuracy"), point, strict=True))


# Types of fields, for pydantic.
CellsField = Annotated[tuple[Cell, ...], PlainSerializer(cell_records)]
ScheduleField = Annotated[Schedule, PlainSerializer(schedule_record)]
DecisionField = Annotated[Decision, PlainSerializer(decision_record)]
