"""Repair of training data: broken rows are repaired or dropped, and a report says which."""

from auctune.engine.vendors.repair import BUILTIN_VENDOR, RepairParams, RepairVendor
from auctune.engine.vendors.report import (
    Action,
    DroppedRow,
    DropReason,
    Example,
    RepairReport,
)

__all__ = [
    "BUILTIN_VENDOR",
    "Action",
    "DropReason",
    "DroppedRow",
    "Example",
    "RepairParams",
    "RepairReport",
    "RepairVendor",
]
