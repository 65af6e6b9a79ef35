"""The Lagrangian dual of the auction's welfare as a function of prices.

With the capacity of nodes of one type added up, and prices lam, phi >= 0 [T, K]:
 D(lam, phi) = sum_i w_i v_i(lam, phi) + sum_tk (lam_tk * compute_tk + phi_tk * memory_tk),
where v_i is the greatest surplus that task i can have at these prices (see `response`). D is
convex and piecewise linear, a subgradient is what is for sale less what tasks take, and every
value of D is an upper bound on welfare.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from auctune.auction.dual.columns import Supply, TaskColumns
from auctune.auction.dual.response import respond
from auctune.numerics.arrays import FIT, Floats

Answers = Literal["exact", "relaxed"]
"""How tasks that several node types run answer; see `response`."""


@dataclass(frozen=True, slots=True)
class DualPrices:
    """Prices and what the dual is worth there.

    Attributes:
        value: D, money.
        lam: [T, K] money per sample.
        phi: [T, K] money per GB-slot.
    """

    value: float
    lam: Floats
    phi: Floats


@dataclass(frozen=True, slots=True)
class Response:
    """What tasks do at given prices.

    Attributes:
        spent: [I] least cost of each, or its bid, if that is no more; money.
        samples, gigabytes: [T, K] what all of them take.
        sold: money that all of the capacity brings at these prices.
    """

    spent: Floats
    samples: Floats
    gigabytes: Floats
    sold: float


class Dual:
    """D of these tasks.

    Args:
        supply: what is for sale.
        columns: the tasks.
        weights: [I] how many such tasks there are, >= 0.
        answers: "exact"; or "relaxed", a D that is a little higher and many times as fast.

    Attributes:
        num_responses: how often the tasks were asked.
    """

    def __init__(
        self, supply: Supply, columns: TaskColumns, weights: Floats, answers: Answers = "exact"
    ) -> None:
        self.supply, self.weights = supply, weights
        self.columns = columns._replace(throughput=held_throughput(columns, supply))
        self.answers: Answers = answers
        self.units = _units(self.columns, weights)
        self.num_responses = 0

    def respond(self, lam: Floats, phi: Floats) -> Response:
        """Let all tasks choose at these prices [T, K]."""
        self.num_responses += 1
        supply = self.supply
        samples, gigabytes = np.zeros_like(lam), np.zeros_like(phi)
        spent = np.empty(self.columns.num_tasks)
        respond(
            *self.columns, self.weights, supply.energy, lam, phi, self.answers == "relaxed",
            samples, gigabytes, spent,
        )  # fmt: skip
        sold = float((lam * supply.compute + phi * supply.memory).sum())
        return Response(spent, samples, gigabytes, sold)

    def value(self, response: Response) -> float:
        """D, money."""
        return float(self.weights @ (self.columns.bid - response.spent)) + response.sold

    def with_bids(self, bid: Floats) -> "Dual":
        """Return the same with other bids [I]."""
        return Dual(self.supply, self.columns._replace(bid=bid), self.weights, self.answers)

    def relaxed(self) -> "Dual":
        """Return the same with relaxed answers."""
        return Dual(self.supply, self.columns, self.weights, "relaxed")


@dataclass(frozen=True, slots=True)
class Units:
    """What is usual on a market: all of the descent is counted in these, in whatever currency.

    Attributes:
        per_sample, per_gb: money; of a sample and of a GB-slot.
        all_bids: money.
    """

    per_sample: float
    per_gb: float
    all_bids: float


def held_throughput(columns: TaskColumns, supply: Supply) -> Floats:
    """Return [I, K] throughput, 0 where no node of the type can hold the task."""
    fits_compute = columns.throughput <= supply.node_compute * (1 + FIT)
    fits_memory = columns.memory_gb[:, None] <= supply.node_memory * (1 + FIT)
    held: Floats = np.where(fits_compute & fits_memory, columns.throughput, 0.0)
    return held


def _units(columns: TaskColumns, weights: Floats) -> Units:
    """Medians: some absurd bids do not move them."""
    quickest = columns.throughput.max(axis=1, initial=0.0)
    counts = (weights > 0) & (quickest > 0) & (columns.bid > 0)
    if not counts.any():
        return Units(1.0, 1.0, 1.0)
    bid, work, memory_gb = columns.bid[counts], columns.work[counts], columns.memory_gb[counts]
    gigabytes = float(np.median(np.ceil(work / quickest[counts]) * memory_gb))
    usual = float(np.median(bid))
    return Units(
        per_sample=float(np.median(bid / work)),
        per_gb=usual / gigabytes if gigabytes > 0 else usual,
        all_bids=usual * float(weights[counts].sum()),
    )
