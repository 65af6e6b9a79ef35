"""Time sharing: training threads that share one pool, each to a loss by a deadline.

After Wang et al., "Learning with Adaptive Resource Allocation" (LARA), ICML 2024.
"""

from auctune.timeshare.allocation import (
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    MOORE_HODGSON,
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
from auctune.timeshare.balancing import Exploration, Thompson, Ucb
from auctune.timeshare.baselines import (
    RoundRobin,
    ShortestFirst,
    SuccessiveHalving,
    Uniform,
)
from auctune.timeshare.clairvoyant import ClairvoyantOptimum, clairvoyant_optimum, true_needs
from auctune.timeshare.estimators import M4, Ls, Mixture, Need, Wls
from auctune.timeshare.laira import Laira
from auctune.timeshare.planner import Planner, lara
from auctune.timeshare.play import play
from auctune.timeshare.rollout import Rollout
from auctune.timeshare.thread import LearningThread, LossCurve

__all__ = [
    "EASIEST_FIRST",
    "LEAST_RESOURCES_FIRST",
    "M4",
    "MOORE_HODGSON",
    "Allocator",
    "AllocatorRun",
    "BundleOutcome",
    "ClairvoyantOptimum",
    "Exploration",
    "InfeasibleSharesError",
    "Laira",
    "LearningThread",
    "LossCurve",
    "Ls",
    "Mixture",
    "Need",
    "Observation",
    "Planner",
    "Rollout",
    "RoundRobin",
    "Shares",
    "ShortestFirst",
    "SuccessiveHalving",
    "Thompson",
    "Ucb",
    "Uniform",
    "Wls",
    "clairvoyant_optimum",
    "lara",
    "moore_hodgson",
    "play",
    "true_needs",
]
