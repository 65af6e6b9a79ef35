"""Who is to be done, and with which shares, for given needs."""

from auctune.timeshare.allocation.moore_hodgson import moore_hodgson
from auctune.timeshare.allocation.rule import (
    EARLIEST_FIRST,
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    MOORE_HODGSON,
    Demand,
    HybridEdf,
    Rule,
)

__all__ = [
    "EARLIEST_FIRST",
    "EASIEST_FIRST",
    "LEAST_RESOURCES_FIRST",
    "MOORE_HODGSON",
    "Demand",
    "HybridEdf",
    "Rule",
    "moore_hodgson",
]
