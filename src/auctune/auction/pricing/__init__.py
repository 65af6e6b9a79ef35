"""Prices of cells: how they start and what moves them."""

from collections.abc import Sequence

from auctune.auction.ledger import CapacityLedger
from auctune.auction.params import PdftspParams
from auctune.auction.pricing.base import PriceUpdate, Pricing
from auctune.auction.pricing.evidence import BidEvidence
from auctune.auction.pricing.exponential import ExponentialPricing
from auctune.auction.pricing.learned import LearnedPricing
from auctune.auction.pricing.learned_params import LearnedParams
from auctune.auction.pricing.paper import PaperPricing
from auctune.domain import InputError, Task

__all__ = [
    "BidEvidence",
    "ExponentialPricing",
    "LearnedParams",
    "LearnedPricing",
    "PaperPricing",
    "PriceUpdate",
    "Pricing",
    "make_pricing",
]


def make_pricing(
    ledger: CapacityLedger,
    params: PdftspParams,
    history: Sequence[Sequence[Task]],
    learned: LearnedParams | None = None,
) -> Pricing:
    """Return the prices of a new market.

    Args:
        ledger: its cells.
        params: which prices, and their settings.
        history: bids of earlier days, for `pricing: learned`.
        learned: its constants.

    Raises:
        InputError: for the paper's prices without alpha and beta.
    """
    if params.pricing == "learned":
        return LearnedPricing(ledger, history, learned)
    if params.pricing == "paper":
        if params.alpha is None or params.beta is None:
            raise InputError("alpha", "is not set", "alpha and beta, for pricing paper")
        return PaperPricing(ledger, params.alpha, params.beta)
    return ExponentialPricing(
        ledger,
        _range(params.compute_low, params.compute_high),
        _range(params.memory_low, params.memory_high),
    )


def _range(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
