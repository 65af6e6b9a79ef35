"""Mechanisms to compare with: they promise less than the auction."""

from auctune.auction.baselines.greedy import GreedyAdmission, make_eft, make_ntm
from auctune.auction.baselines.titan import Titan, TitanParams

__all__ = ["GreedyAdmission", "Titan", "TitanParams", "make_eft", "make_ntm"]
