"""The optimum of a market whose bids are all known, as a program for HiGHS."""

from auctune.auction.offline.optimum import OfflineOptimum, num_cells, offline_optimum

__all__ = ["OfflineOptimum", "num_cells", "offline_optimum"]
