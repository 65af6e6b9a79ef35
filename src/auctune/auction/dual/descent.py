"""Minimizing the Lagrangian dual over prices of slots and node types.

With the capacity of nodes of one type added up, and prices lam, phi >= 0 [T, K]:
 D(lam, phi) = sum_i w_i v_i(lam, phi) + sum_tk (lam_tk * compute_tk + phi_tk * memory_tk),
where v_i is the greatest surplus that task i can have at these prices (see `response`). D is convex
and piecewise linear, a subgradient is what is for sale less what tasks take, and every value of D
is an upper bound on welfare. With thousands of tasks it is nearly smooth, and a quasi-Newton method
with bounds (L-BFGS-B) comes close to its minimum in a few hundred evaluations.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from auctune.auction.book import Floats
from auctune.auction.dual.columns import TaskColumns
from auctune.auction.dual.response import respond
from auctune.auction.dual.supply import Supply
from auctune.auction.tolerance import FIT
from auctune.numerics.threads import one_thread


@dataclass(frozen=True, slots=True)
class DescentParams:
    """When the descent ends.

    Attributes:
        max_steps: steps at most.
        tolerance: relative gain of a step below which it ends.
        memory: steps that its model of the curvature is made from.
    """

    max_steps: int = 500
    tolerance: float = 1e-9
    memory: int = 20


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


def minimize_dual(
    supply: Supply,
    columns: TaskColumns,
    weights: Floats,
    *,
    start: DualPrices | None = None,
    params: DescentParams | None = None,
) -> DualPrices:
    """Prices near the minimum of the dual.

    Args:
        supply: what is for sale.
        columns: the tasks.
        weights: [I] how many such tasks there are, >= 0.
        start: where to start; none: at the median value of a sample.
        params: when to end.
    """
    params = params or DescentParams()
    dual = _Dual(supply, columns, weights)
    num_slots, num_types = supply.compute.shape
    if start is None:
        lam, phi = np.ones((num_slots, num_types)), np.zeros((num_slots, num_types))
    else:
        lam, phi = start.lam / dual.per_sample, start.phi / dual.per_gb
    with one_thread():
        found = minimize(
            dual.value_and_slope,
            np.concatenate((lam.ravel(), phi.ravel())),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * (2 * lam.size),
            options={
                "maxiter": params.max_steps,
                "maxfun": 2 * params.max_steps,
                "maxcor": params.memory,
                "ftol": params.tolerance,
            },
        )
    return DualPrices(float(found.fun), *dual.prices(found.x))


class _Dual:
    """The dual as a function of one vector: prices in units near 1."""

    def __init__(self, supply: Supply, columns: TaskColumns, weights: Floats) -> None:
        self._supply, self._weights = supply, weights
        self._columns = columns._replace(throughput=_held(columns, supply))
        self.per_sample, self.per_gb = _units(columns)

    def value_and_slope(self, x: Floats) -> tuple[float, Floats]:
        supply = self._supply
        lam, phi = self.prices(x)
        samples, gigabytes = np.zeros_like(lam), np.zeros_like(phi)
        value = respond(*self._columns, self._weights, supply.energy, lam, phi, samples, gigabytes)
        value += float((lam * supply.compute + phi * supply.memory).sum())
        slope_lam = (supply.compute - samples) * self.per_sample
        slope_phi = (supply.memory - gigabytes) * self.per_gb
        return value, np.concatenate((slope_lam.ravel(), slope_phi.ravel()))

    def prices(self, x: Floats) -> tuple[Floats, Floats]:
        """[T, K] each."""
        lam, phi = x.reshape(2, *self._supply.compute.shape)
        return lam * self.per_sample, phi * self.per_gb


def _held(columns: TaskColumns, supply: Supply) -> Floats:
    """[I, K] throughput, 0 where no node of the type can hold the task."""
    fits_compute = columns.throughput <= supply.node_compute * (1 + FIT)
    fits_memory = columns.memory_gb[:, None] <= supply.node_memory * (1 + FIT)
    held: Floats = np.where(fits_compute & fits_memory, columns.throughput, 0.0)
    return held


def _units(columns: TaskColumns) -> tuple[float, float]:
    """Typical values of a sample and of a GB-slot, so that steps suit both."""
    if columns.num_tasks == 0:
        return 1.0, 1.0
    per_sample = float(np.median(columns.bid / columns.work))
    num_cells = np.ceil(columns.work / columns.throughput.max(axis=1))
    gigabytes = float(np.median(num_cells * columns.memory_gb))
    per_gb = float(np.median(columns.bid)) / gigabytes if gigabytes > 0 else 1.0
    return per_sample or 1.0, per_gb or 1.0
