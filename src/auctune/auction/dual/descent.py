"""Minimize the Lagrangian dual over prices of slots and node types.

With thousands of tasks the dual (see `dual`) is nearly smooth, and a quasi-Newton method with
bounds (L-BFGS-B) comes close to its minimum in a few hundred evaluations. With few it is all
edges, where the method may stop.

Prices are counted in what is usual on the market, and the dual as its change since the start: the
currency changes nothing but rounding, and one absurd bid, which gets what it wants at any price,
does not hide what is gained on the others.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from auctune.auction.dual.dual import Dual, DualPrices
from auctune.numerics.arrays import Floats
from auctune.numerics.threads import one_thread


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


def initial_prices(dual: Dual) -> DualPrices:
    """Return the median value of a sample in every slot, and memory for nothing."""
    shape = dual.supply.compute.shape
    return DualPrices(math.inf, np.full(shape, dual.units.per_sample), np.zeros(shape))


def descend(dual: Dual, start: DualPrices, params: DescentParams) -> DualPrices:
    """Prices near the minimum of a dual."""
    objective = _DescentObjective(dual, start)
    with one_thread():
        minimize(
            objective.value_and_slope,
            objective.start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * len(objective.start),
            options={
                "maxiter": params.max_steps,
                "maxfun": 2 * params.max_steps,
                "maxcor": params.memory,
                "ftol": params.tolerance,
                "gtol": _LEAST_SLOPE,
            },
        )
    # Not what it returns: where a line search fails, its value is not that of its point.
    return DualPrices(objective.value(objective.least), *objective.prices(objective.lowest))


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
        change = float(dual.weights @ (first.spent - here.spent)) + here.sold - first.sold
        slope_lam = (dual.supply.compute - here.samples) * (units.per_sample / units.all_bids)
        slope_phi = (dual.supply.memory - here.gigabytes) * (units.per_gb / units.all_bids)
        value = change / units.all_bids
        if value < self.least:
            self.lowest, self.least = x.copy(), value
        return value, np.concatenate((slope_lam.ravel(), slope_phi.ravel()))

    def value(self, change: float) -> float:
        """D, money."""
        return self._dual.value(self._first) + change * self._units.all_bids

    def prices(self, x: Floats) -> tuple[Floats, Floats]:
        """[T, K] each."""
        lam, phi = x.reshape(2, *self._dual.supply.compute.shape)
        return lam * self._units.per_sample, phi * self._units.per_gb
