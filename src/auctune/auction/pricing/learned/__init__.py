"""Learned prices: what cells will be worth to bids to come, from bids that came."""

from auctune.auction.pricing.learned.learned import LearnedPricing

__all__ = ["LearnedPricing"]
