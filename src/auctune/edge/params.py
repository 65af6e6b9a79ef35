"""The options of Eris."""

import math
from dataclasses import dataclass
from typing import Literal

from auctune.domain import InputError
from auctune.domain.checks import check_finite
from auctune.edge.market import EdgeMarket
from auctune.edge.prices import EdgePricing, PaperPrices, SharePrices

Pricing = Literal["share", "paper"]


@dataclass(frozen=True, slots=True)
class ErisParams:
    """Options; docs/explanation/edge.md has their reasons.

    Attributes:
        pricing: `share`: by the share that is sold, from a reserve; `paper`: eq. 6 with the
            market's price bases.
        worth: of `share`: what a job that takes no time is worth, money; none: the mean of the
            bids so far, without the one that is priced.
        weight: of `share`: all of the market in one slot, while nothing of it is sold, costs this
            share of `worth`.
        rise: of `share`: by how much the last unit is dearer than the first.
    """

    pricing: Pricing = "share"
    worth: float | None = None
    weight: float = 0.12
    rise: float = 10.0

    def __post_init__(self) -> None:
        if self.worth is not None:
            check_finite(self.worth, "worth", "money >= 0")
        check_finite(self.weight, "weight", "a number >= 0")
        if not 1 <= self.rise < math.inf:
            raise InputError("rise", f"{self.rise!r}", "a number >= 1")

    def prices(self, market: EdgeMarket, seen: float) -> EdgePricing:
        """The pricing that is asked for.

        Args:
            market: the supply.
            seen: mean worth of the bids so far, money.
        """
        if self.pricing == "paper":
            return PaperPrices()
        worth = seen if self.worth is None else self.worth
        return SharePrices(
            self.weight * worth / (len(market.sites) * max(1, len(market.types))), self.rise
        )
