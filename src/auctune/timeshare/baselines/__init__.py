"""Baselines without a forecast, and the clairvoyant optimum."""

from auctune.timeshare.baselines.clairvoyant import (
    ClairvoyantOptimum,
    clairvoyant_optimum,
    true_needs,
)
from auctune.timeshare.baselines.shortest_first import ShortestFirst
from auctune.timeshare.baselines.uniform import Uniform

__all__ = ["ClairvoyantOptimum", "ShortestFirst", "Uniform", "clairvoyant_optimum", "true_needs"]
