"""The Lagrangian dual of the auction's welfare as a function of prices, and its descent."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from auctune.auction.dual.columns import Supply, TaskColumns
from auctune.auction.dual.response import respond
from auctune.numerics.arrays import FIT, Floats
from auctune.numerics.threads import one_thread

# The Lagrangian dual of the auction's welfare as a function of prices.
#
# With the capacity of nodes of one type added up, and prices lam, phi >= 0 [T, K]:
#  D(lam, phi) = sum_i w_i v_i(lam, phi) + sum_tk (lam_tk * compute_tk + phi_tk * memory_tk),
# where v_i is the greatest surplus that task i can have at these prices (see `response`). D is
# convex and piecewise linear, a subgradient is what is for sale less what tasks take, and every
# value of D is an upper bound on welfare.


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


# Minimizing the Lagrangian dual over prices of slots and node types.
#
# With thousands of tasks the dual (see `dual`) is nearly smooth, and a quasi-Newton method with
# bounds (L-BFGS-B) comes close to its minimum in a few hundred evaluations. With few it is all
# edges, where the method may stop.
#
# Prices are counted in what is usual on the market, and the dual as what it has fallen since the
# start: the currency changes nothing but rounding, and one absurd bid, which gets what it wants at
# any price, does not hide what is gained on the others.


@dataclass(frozen=True, slots=True)
class DescentParams:
    """When the descent ends.

    Attributes:
        max_steps: steps at most, >= 1.
        tolerance: gain of a step below which it ends, as a share of the usual bid times the number
            of bids; >= 0.
        memory: steps that its model of the curvature is made from, >= 1.
    """

    max_steps: int = 500
    tolerance: float = 1e-9
    memory: int = 20

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ValueError(f"max_steps is {self.max_steps!r}; expected a whole number >= 1")
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(f"tolerance is {self.tolerance!r}; expected a number >= 0")
        if self.memory < 1:
            raise ValueError(f"memory is {self.memory!r}; expected a whole number >= 1")


def minimize_dual(
    supply: Supply,
    columns: TaskColumns,
    weights: Floats,
    *,
    start: DualPrices | None = None,
    answers: Answers = "exact",
    params: DescentParams | None = None,
) -> DualPrices:
    """Prices near the minimum of the dual.

    Args:
        supply: what is for sale.
        columns: the tasks.
        weights: [I] how many such tasks there are, >= 0.
        start: where to start; None: at the median value of a sample.
        answers: "exact"; or "relaxed", many times as fast where tasks can run on several types, for
            prices of nearly the same worth.
        params: when to end.
    """
    dual = Dual(supply, columns, weights, answers)
    return descend(dual, start or initial_prices(dual), params or DescentParams())


def initial_prices(dual: Dual) -> DualPrices:
    """Return the median value of a sample in every slot, and memory for nothing."""
    shape = dual.supply.compute.shape
    return DualPrices(math.inf, np.full(shape, dual.units.per_sample), np.zeros(shape))


def descend(dual: Dual, start: DualPrices, params: DescentParams) -> DualPrices:
    """Prices near the minimum of a dual."""
    fall = _DescentObjective(dual, start)
    with one_thread():
        minimize(
            fall.value_and_slope,
            fall.start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * len(fall.start),
            options={
                "maxiter": params.max_steps,
                "maxfun": 2 * params.max_steps,
                "maxcor": params.memory,
                "ftol": params.tolerance,
                "gtol": _LEAST_SLOPE,
            },
        )
    # Not what it returns: where a line search fails, its value is not that of its point.
    return DualPrices(fall.value(fall.least), *fall.prices(fall.lowest))


# Of prices in usual units, where the objective is about 1: no slope but rounding is as small.
_LEAST_SLOPE = 1e-12


class _DescentObjective:
    """The dual less what it is at the start, as a function of one vector near 1."""

    def __init__(self, dual: Dual, start: DualPrices) -> None:
        self._dual, self._units = dual, dual.units
        self._first = dual.respond(start.lam, start.phi)
        lam, phi = start.lam / dual.units.per_sample, start.phi / dual.units.per_gb
        self.start: Floats = np.concatenate((lam.ravel(), phi.ravel()))
        self.lowest, self.least = self.start, 0.0

    def value_and_slope(self, x: Floats) -> tuple[float, Floats]:
        dual, units, first = self._dual, self._units, self._first
        here = dual.respond(*self.prices(x))
        # Costs and not gains: those of an absurd bid have no digits left for its costs.
        fall = float(dual.weights @ (first.spent - here.spent)) + here.sold - first.sold
        slope_lam = (dual.supply.compute - here.samples) * (units.per_sample / units.all_bids)
        slope_phi = (dual.supply.memory - here.gigabytes) * (units.per_gb / units.all_bids)
        value = fall / units.all_bids
        if value < self.least:
            self.lowest, self.least = x.copy(), value
        return value, np.concatenate((slope_lam.ravel(), slope_phi.ravel()))

    def value(self, fall: float) -> float:
        """D, money."""
        return self._dual.value(self._first) + fall * self._units.all_bids

    def prices(self, x: Floats) -> tuple[Floats, Floats]:
        """[T, K] each."""
        lam, phi = x.reshape(2, *self._dual.supply.compute.shape)
        return lam * self._units.per_sample, phi * self._units.per_gb
