"""Prices by use, and the mechanism's options."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_finite
from auctune.edge.decision import EdgePlan
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import DATA, EdgeMarket
from auctune.numerics.arrays import Floats

# Prices by use.
#
# Shapes: T slots, R sites, K resource types.
#
# `PaperPrices`, Pang et al. (TMC 2024), eq. 6:
#
#  alpha(t)    = gamma_d^(rho(t) / B) - 1          money a MB
#  beta_r^k(t) = gamma_k^(eta_r^k(t) / C_r^k) - 1  money a unit
#
# `SharePrices`, by shares, so that no unit is in them and nothing is free:
#
#  alpha(t)    = L c^(rho(t) / B) / B
#  beta_r^k(t) = L c^(eta_r^k(t) / C_r^k) / C_r^k


@dataclass(frozen=True, slots=True, eq=False)
class EdgePrices:
    """The prices of a moment, from slot `first` on.

    Attributes:
        first: slot of the first row.
        alpha: [T - first] money a MB that crosses sites.
        beta: [T - first, R, K] money a unit.
    """

    first: int
    alpha: Floats
    beta: Floats


class EdgePricing(Protocol):
    """From what is sold to prices; no bid is in it."""

    def __call__(self, ledger: EdgeLedger, first: int = 0) -> EdgePrices:
        """Return the prices from slot `first` on."""
        ...


@dataclass(frozen=True, slots=True)
class PaperPrices:
    """Eq. 6, with the market's price bases."""

    def __call__(self, ledger: EdgeLedger, first: int = 0) -> EdgePrices:
        market = ledger.market
        base = np.array([market.base(kind) for kind in market.types])
        traffic, units = shares(ledger, first)
        return EdgePrices(
            first, np.power(market.base(DATA), traffic) - 1, np.power(base, units) - 1
        )


@dataclass(frozen=True, slots=True)
class SharePrices:
    """By the share that is sold, from a reserve.

    Attributes:
        reserve: L, money in a slot for all of a type at a site, or for all traffic, at the price
            of its first unit.
        rise: c, by how much the last unit is dearer than the first.
    """

    reserve: float
    rise: float

    def __post_init__(self) -> None:
        check_finite(self.reserve, "reserve", "money >= 0")
        if not 1 <= self.rise < math.inf:
            raise InputError("rise", f"{self.rise!r}", "a number >= 1")

    def __call__(self, ledger: EdgeLedger, first: int = 0) -> EdgePrices:
        traffic, units = shares(ledger, first)
        capacity = np.where(ledger.capacity > 0, ledger.capacity, 1.0)
        alpha = self.reserve * np.power(self.rise, traffic) / ledger.market.traffic_mb_per_slot
        return EdgePrices(first, alpha, self.reserve * np.power(self.rise, units) / capacity)


def shares(ledger: EdgeLedger, first: int) -> tuple[Floats, Floats]:
    """[T - first] of traffic and [T - first, R, K] of units that are sold."""
    # What a site has none of is never sold there.
    row = first - ledger.begin
    units = ledger.used[row:] / np.where(ledger.capacity > 0, ledger.capacity, 1.0)
    return ledger.traffic[row:] / ledger.market.traffic_mb_per_slot, units


def cost_of(ledger: EdgeLedger, prices: EdgePrices, job: EdgeJob, plan: EdgePlan) -> float:
    """Return what a plan costs at these prices: the cost of eq. 8, summed over its slots."""
    market = ledger.market
    worker, server = market.needs(job.worker), market.needs(job.server)
    terms: list[float] = []
    for part in plan.slots:
        row = part.slot - prices.first
        beta = prices.beta[row]
        terms.append(float(prices.alpha[row]) * part.traffic_mb(job, market))
        terms.append(float(server @ beta[ledger.index_of(part.server)]))
        terms.extend(
            count * float(worker @ beta[ledger.index_of(site)])
            for site, count in part.workers.items()
        )
    return math.fsum(terms)


Pricing = Literal["share", "paper"]


@dataclass(frozen=True, slots=True)
class ErisParams:
    """Options; docs/explanation/edge.md has their reasons.

    Attributes:
        pricing: `share`: by the share that is sold, from a reserve; `paper`: eq. 6 with the
            market's price bases.
        worth: of `share`: what a job that takes no time is worth, money; None: the mean of the
            bids so far, those of earlier days included, without the one that is priced.
        weight: of `share`: all of the market in one slot, while nothing of it is sold, costs this
            share of `worth`.
        rise: of `share`: by how much the last unit is dearer than the first.
        search: how a slot is filled: `nested`: by the greedy of docs/explanation/edge.md;
            `printed`: by the paper's Algorithm 3 as printed.
    """

    pricing: Pricing = "share"
    worth: float | None = None
    weight: float = 0.12
    rise: float = 10.0
    search: Literal["nested", "printed"] = "nested"

    def __post_init__(self) -> None:
        if self.worth is not None:
            check_finite(self.worth, "worth", "money >= 0")
        check_finite(self.weight, "weight", "a number >= 0")
        if not 1 <= self.rise < math.inf:
            raise InputError("rise", f"{self.rise!r}", "a number >= 1")

    def prices(self, market: EdgeMarket, seen: float) -> EdgePricing:
        """Return the pricing that is asked for.

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
