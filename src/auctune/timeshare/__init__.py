"""Time sharing: training threads that share one pool, each to a loss by a deadline.

After Wang et al., "Learning with Adaptive Resource Allocation" (LARA), ICML 2024.
"""

from auctune.timeshare.allocation import (
    EARLIEST_FIRST,
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    MOORE_HODGSON,
    HybridEdf,
    moore_hodgson,
)
from auctune.timeshare.allocator import (
    Allocator,
    AllocatorRun,
    BundleOutcome,
    InfeasibleSharesError,
    Observation,
    Shares,
)
from auctune.timeshare.balancing import Exploration, OptimisticFilter, Thompson, Ucb
from auctune.timeshare.baselines import (
    ClairvoyantOptimum,
    ShortestFirst,
    Uniform,
    clairvoyant_optimum,
    true_needs,
)
from auctune.timeshare.estimators import M4, Ls, Mixture, Need, Wls
from auctune.timeshare.planner import Planner, headway, lara
from auctune.timeshare.play import play
from auctune.timeshare.thread import LearningThread, LossCurve

__all__ = [
    "EARLIEST_FIRST",
    "EASIEST_FIRST",
    "LEAST_RESOURCES_FIRST",
    "M4",
    "MOORE_HODGSON",
    "Allocator",
    "AllocatorRun",
    "BundleOutcome",
    "ClairvoyantOptimum",
    "Exploration",
    "HybridEdf",
    "InfeasibleSharesError",
    "LearningThread",
    "LossCurve",
    "Ls",
    "Mixture",
    "Need",
    "Observation",
    "OptimisticFilter",
    "Planner",
    "Shares",
    "ShortestFirst",
    "Thompson",
    "Ucb",
    "Uniform",
    "Wls",
    "clairvoyant_optimum",
    "headway",
    "lara",
    "moore_hodgson",
    "play",
    "true_needs",
]
