"""Who is to be done, and with which shares, for given needs."""

from auctune.timeshare.allocation.moore_hodgson import moore_hodgson
from auctune.timeshare.allocation.rule import (
    Demand,
    EarliestFirst,
    EasiestFirst,
    LeastResourcesFirst,
    MooreHodgson,
    Paced,
    Rule,
)

__all__ = [
    "Demand",
    "EarliestFirst",
    "EasiestFirst",
    "LeastResourcesFirst",
    "MooreHodgson",
    "Paced",
    "Rule",
    "moore_hodgson",
]
