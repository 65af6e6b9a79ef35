"""Who is to be done, and with which shares, for given needs."""

from auctune.timeshare.allocation.moore_hodgson import moore_hodgson
from auctune.timeshare.allocation.rule import (
    Demand,
    EarliestFirst,
    EasiestFirst,
    HybridEdf,
    LeastResourcesFirst,
    MooreHodgson,
    Rule,
)

__all__ = [
    "Demand",
    "EarliestFirst",
    "EasiestFirst",
    "HybridEdf",
    "LeastResourcesFirst",
    "MooreHodgson",
    "Rule",
    "moore_hodgson",
]
