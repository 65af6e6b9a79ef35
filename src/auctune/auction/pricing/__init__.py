"""Prices of cells: how they start and what moves them."""

from auctune.auction.pricing.choice import make_pricing
from auctune.auction.pricing.evidence import BidEvidence
from auctune.auction.pricing.exponential import ExponentialPricing
from auctune.auction.pricing.learned import LearnedPricing
from auctune.auction.pricing.paper import PaperPricing
from auctune.auction.pricing.pricing import Lesson, Pricing

__all__ = [
    "BidEvidence",
    "ExponentialPricing",
    "LearnedPricing",
    "Lesson",
    "PaperPricing",
    "Pricing",
    "make_pricing",
]
