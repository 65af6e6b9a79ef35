"""The Lagrangian dual of the auction's welfare: shadow prices of slots, and upper bounds."""

from auctune.auction.dual.bound import BoundParams, lagrangian_bound
from auctune.auction.dual.columns import Supply, TaskColumns, to_columns, whole_supply
from auctune.auction.dual.descent import DescentParams
from auctune.auction.dual.dual import Answers, DualPrices

__all__ = [
    "Answers",
    "BoundParams",
    "DescentParams",
    "DualPrices",
    "Supply",
    "TaskColumns",
    "lagrangian_bound",
    "to_columns",
    "whole_supply",
]
