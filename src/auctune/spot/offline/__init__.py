"""The best that could have been done with a job, everything known."""

from auctune.spot.offline.optimum import OfflineOptimum, offline_bound, offline_optimum

__all__ = ["OfflineOptimum", "offline_bound", "offline_optimum"]
