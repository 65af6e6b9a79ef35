"""The Lagrangian dual of the auction's welfare: shadow prices of slots, and upper bounds."""

from auctune.auction.dual.bound import BoundParams, CuttingParams, DualBound, lagrangian_bound
from auctune.auction.dual.columns import Supply, TaskColumns, to_columns, whole_supply
from auctune.auction.dual.dual import Answers, DescentParams, DualPrices, minimize_dual

__all__ = [
    "Answers",
    "BoundParams",
    "CuttingParams",
    "DescentParams",
    "DualBound",
    "DualPrices",
    "Supply",
    "TaskColumns",
    "lagrangian_bound",
    "minimize_dual",
    "to_columns",
    "whole_supply",
]
