"""Data vendors: they put a task's training data in order, for a price and a delay."""

from auctune.run.vendors.repair_params import RepairParams
from auctune.run.vendors.repair_report import (
    Action,
    DroppedRow,
    DropReason,
    Example,
    RepairReport,
)
from auctune.run.vendors.repair_vendor import RepairVendor
from auctune.run.vendors.vendor import Vendor

__all__ = [
    "Action",
    "DropReason",
    "DroppedRow",
    "Example",
    "RepairParams",
    "RepairReport",
    "RepairVendor",
    "Vendor",
]
