"""A lower bound on the least cost of cells that do the work, by Lagrangian duality.

The problem, with w_jk the cost of a cell of type k in slot j and s_k its samples (in units):
 min sum w_jk x_jk   s.t.  sum s_k x_jk >= M,  sum_k x_jk <= 1 in each slot j,  x binary.
With a price mu >= 0 a unit of work,
 g(mu) = mu * M - sum_j max(0, max_k (mu * s_k - w_jk))
is a lower bound for every mu, concave and piecewise linear. Its maximum is found exactly by
intersecting the lines at two points on either side of it.
"""

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

MAX_STEPS = 200


@kernel
def dual_price(
    weight: Floats, samples: Ints, needed: int, first: int, last: int, guess: float, limit: float
) -> tuple[float, float, float]:
    """Maximize g over the slots j in [first, last).

    Args:
        weight: [W * K] w_jk at j * K + k; infinite where there is no cell.
        samples: [K] s_k in units.
        needed: M in units.
        guess: a mu to start from; any will do.
        limit: stop as soon as g is above it.

    Returns:
        mu (money a unit), g(mu), and the cost of a feasible choice of cells found on the way;
        all infinite if the slots cannot hold the work.
    """
    low_units, low_cost = 0, 0.0
    high_units, high_cost = _everything(weight, samples, first, last)
    if high_units < needed:
        return np.inf, np.inf, np.inf
    feasible = high_cost
    mu, bound = guess, 0.0
    # Each step finds a new line of g or stops; the count only guards against rounding.
    for step in range(MAX_STEPS):
        if step > 0:
            mu = (high_cost - low_cost) / float(high_units - low_units)
        units, cost = _best_reply(weight, samples, first, last, mu)
        bound = cost + mu * float(needed - units)
        if units >= needed:
            feasible = min(feasible, cost)
        if bound > limit:
            break
        meeting = low_cost + mu * float(needed - low_units)
        if step > 0 and (
            units in (low_units, high_units) or bound >= meeting - 1e-13 * abs(meeting)
        ):
            break
        if units >= needed:
            high_units, high_cost = units, cost
        else:
            low_units, low_cost = units, cost
    return mu, bound, feasible


@kernel
def _everything(weight: Floats, samples: Ints, first: int, last: int) -> tuple[int, float]:
    """Units and cost with the most productive cell of every slot: the reply to a huge mu."""
    num_types = len(samples)
    units, cost = 0, 0.0
    for j in range(first, last):
        most, least = 0, 0.0
        for k in range(num_types):
            w, s = weight[j * num_types + k], samples[k]
            if w < np.inf and (s > most or (s == most and w < least)):
                most, least = s, w
        units += most
        cost += least
    return units, cost


@kernel
def _best_reply(
    weight: Floats, samples: Ints, first: int, last: int, mu: float
) -> tuple[int, float]:
    num_types = len(samples)
    units, cost = 0, 0.0
    for j in range(first, last):
        gain, which = 0.0, -1
        for k in range(num_types):
            g = mu * float(samples[k]) - weight[j * num_types + k]
            if g > gain:
                gain, which = g, k
        if which >= 0:
            units += samples[which]
            cost += weight[j * num_types + which]
    return units, cost


@kernel
def fill_rest(
    weight: Floats, samples: Ints, first: int, last: int, mu: float, rest: Floats
) -> None:
    """rest[j]: the most that the slots j.. can still gain at mu."""
    num_types = len(samples)
    rest[last] = 0.0
    for j in range(last - 1, first - 1, -1):
        gain = 0.0
        for k in range(num_types):
            gain = max(gain, mu * float(samples[k]) - weight[j * num_types + k])
        rest[j] = rest[j + 1] + gain
