"""The options of Eris."""

from dataclasses import dataclass
from typing import Literal

from auctune.edge.prices import EdgePricing, PaperPrices, SharePrices

Pricing = Literal["paper", "share"]


@dataclass(frozen=True, slots=True)
class ErisParams:
    """Options; docs/explanation/edge.md has their reasons.

    Attributes:
        pricing: `paper`: eq. 6 with the market's price bases; `share`: from `reserve` to `top` by
            the share that is sold.
        reserve: of `share`, money in a slot for all of a type at a site, or for all traffic.
        top: likewise, at the price of the last unit.
    """

    pricing: Pricing = "paper"
    reserve: float = 10.0
    top: float = 100.0

    def __post_init__(self) -> None:
        self.prices()

    def prices(self) -> EdgePricing:
        """The pricing that is asked for."""
        if self.pricing == "share":
            return SharePrices(self.reserve, self.top)
        return PaperPrices()
