"""The multi-LoRA auction (pdFTSP) and its baselines."""

from auctune.auction.baselines import GreedyAdmission, Titan, TitanParams, make_eft, make_ntm
from auctune.auction.params import PdftspParams
from auctune.auction.pdftsp import Pdftsp

__all__ = [
    "GreedyAdmission",
    "Pdftsp",
    "PdftspParams",
    "Titan",
    "TitanParams",
    "make_eft",
    "make_ntm",
]
