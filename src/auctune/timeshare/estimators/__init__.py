"""Foretelling how many batches a thread still needs."""

from auctune.timeshare.estimators.estimator import (
    Estimator,
    EstimatorBank,
    LossEstimator,
    Need,
    Needs,
    ObjectBank,
)
from auctune.timeshare.estimators.m4 import M4
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.estimators.wls import Ls, Wls

__all__ = [
    "M4",
    "Estimator",
    "EstimatorBank",
    "LossEstimator",
    "Ls",
    "Mixture",
    "Need",
    "Needs",
    "ObjectBank",
    "Wls",
]
