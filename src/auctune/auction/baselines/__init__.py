"""Mechanisms to compare with: they promise less than the auction."""

from auctune.auction.baselines.greedy import GreedyAdmission, make_eft, make_ntm

__all__ = ["GreedyAdmission", "make_eft", "make_ntm"]
