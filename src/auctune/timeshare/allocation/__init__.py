"""Who is to be done, and with which shares, for given needs."""

from auctune.timeshare.allocation.moore_hodgson import moore_hodgson
from auctune.timeshare.allocation.rule import (
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    MOORE_HODGSON,
    Demand,
    Rule,
)

__all__ = [
    "EASIEST_FIRST",
    "LEAST_RESOURCES_FIRST",
    "MOORE_HODGSON",
    "Demand",
    "Rule",
    "moore_hodgson",
]
