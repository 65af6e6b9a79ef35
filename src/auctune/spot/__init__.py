"""Renting by deadline: spot and on-demand GPUs, slot by slot.

After Linggao Kong, Yuedong Xu, Lei Jiao and Chuan Xu, "Deadline-Aware Online Scheduling for LLM
Fine-Tuning with Spot Market Predictions" (arXiv 2512.20967).
"""

from auctune.spot.batch import BatchOutcome, play_batch
from auctune.spot.job import InstanceStart, LinearScaling, Overhead, Scaling, SpotJob, TableScaling
from auctune.spot.market import SpotMarket
from auctune.spot.offline import OfflineOptimum, offline_bound, offline_optimum
from auctune.spot.play import PastSlot, play, settle
from auctune.spot.policies import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    Robust,
    SpotFirst,
    UniformProgress,
)
from auctune.spot.policy import (
    IDLE,
    InfeasibleAllocationError,
    Policy,
    PolicyRun,
    SpotAllocation,
    SpotObservation,
    SpotOutcome,
)
from auctune.spot.pool import default_pool
from auctune.spot.value import least_utility, value_at_deadline, value_of_finish

__all__ = [
    "IDLE",
    "Ahanp",
    "Ahap",
    "BatchOutcome",
    "InfeasibleAllocationError",
    "InstanceStart",
    "LinearScaling",
    "OfflineOptimum",
    "OnDemandOnly",
    "Overhead",
    "PastSlot",
    "Policy",
    "PolicyRun",
    "Robust",
    "Scaling",
    "SpotAllocation",
    "SpotFirst",
    "SpotJob",
    "SpotMarket",
    "SpotObservation",
    "SpotOutcome",
    "TableScaling",
    "UniformProgress",
    "default_pool",
    "least_utility",
    "offline_bound",
    "offline_optimum",
    "play",
    "play_batch",
    "settle",
    "value_at_deadline",
    "value_of_finish",
]
