"""Estimators of how many batches a thread still needs."""

from auctune.timeshare.estimators.estimator import (
    Estimator,
    EstimatorLoop,
    LossEstimator,
    Need,
    Needs,
    SingleThread,
    VectorizedEstimator,
)
from auctune.timeshare.estimators.m4 import M4
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.estimators.wls import Ls, Wls

__all__ = [
    "M4",
    "Estimator",
    "EstimatorLoop",
    "LossEstimator",
    "Ls",
    "Mixture",
    "Need",
    "Needs",
    "SingleThread",
    "VectorizedEstimator",
    "Wls",
]
