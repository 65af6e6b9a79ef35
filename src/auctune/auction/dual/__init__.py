"""The Lagrangian dual of the auction's welfare: shadow prices of slots, and upper bounds."""

from auctune.auction.dual.bound import BoundParams, DualBound, lagrangian_bound
from auctune.auction.dual.columns import TaskColumns, to_columns
from auctune.auction.dual.cutting_planes import CuttingParams
from auctune.auction.dual.descent import DescentParams, minimize_dual
from auctune.auction.dual.dual import Answers, DualPrices
from auctune.auction.dual.supply import Supply, whole_supply

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
