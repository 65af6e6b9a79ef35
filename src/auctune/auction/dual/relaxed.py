"""Tasks that several node types run, with cells cut at will: the linear relaxation of the answer.

 C = min over x >= 0 of sum_tk w_tk x_tk   with sum_tk s_k x_tk >= M and sum_k x_tk <= 1 for each t,
a multiple-choice knapsack. With one money mu a sample, a slot is worth max(0, max_k mu s_k - w_tk);
let S(mu) and W(mu) be samples and cost of the cells that are worth most. The points (S, W) of all
mu are the corners of the least cost as a function of the work, which is convex: C lies on the edge
from the last corner with S < M to the first with S >= M. Tangents at two corners, one on each
side, meet at the mu of the next: some passes over the cells, none of them sorted.

No schedule of whole cells costs less, and the cells of both corners in these shares are a
subgradient. See Zemel, "The linear multiple choice knapsack problem", 1980, for the greedy that
finds the same edge by sorting.
"""

import numpy as np

from auctune.auction.dual.problem import AggregateDemand, Buffers, Window
from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel


@kernel
def respond_relaxed(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: AggregateDemand,
) -> float:
    """The task's least cost, its cells added to what is taken; or its bid, if that is no more."""
    cost, start, low, high, share = _best_start(window, speed, needed, bid, buffers)
    if start >= 0:
        _take(start, window.last, speed, low, 1.0 - share, buffers.weight, taken)
        _take(start, window.last, speed, high, share, buffers.weight, taken)
    return cost


@kernel
def pays_relaxed(
    window: Window, speed: Floats, needed: float, bid: float, buffers: Buffers
) -> bool:
    """Whether the bid is more than the least cost; if not, no schedule of whole cells pays."""
    return _best_start(window, speed, needed, bid, buffers)[1] >= 0


@kernel
def _best_start(
    window: Window, speed: Floats, needed: float, bid: float, buffers: Buffers
) -> tuple[float, int, float, float, float]:
    """Least cost or bid, first slot or -1, mu of both corners, and the share of the second."""
    start_price, last = buffers.start_price, window.last
    cost, start, dearest = bid, -1, np.inf
    low, high, share = 0.0, 0.0, 0.0
    # With fewer slots cells cost no less.
    least = 0.0
    for t in range(window.begin, last + 1):
        price = start_price[t]
        if price >= dearest or price + least >= cost:
            continue
        dearest = price
        least, below, above, part = _least_cost(
            t, last, speed, needed, cost - price, buffers.weight
        )
        if price + least < cost:
            cost, start, low, high, share = price + least, t, below, above, part
    return cost, start, low, high, share


@kernel
def _least_cost(
    first: int, last: int, speed: Floats, needed: float, most: float, weight: Floats
) -> tuple[float, float, float, float]:
    """The least cost, mu of the corners on both sides, and how far the answer is from the first.

    Where the least cost is no less than `most`, so is what is returned for it.
    """
    low, samples_low, cost_low = 0.0, 0.0, 0.0
    high, samples_high, cost_high = np.inf, 0.0, 0.0
    mu, is_new = most / needed, True
    while is_new:
        samples, cost = _corner(first, last, speed, weight, mu)
        # The tangent here is nowhere above the least cost.
        if cost + mu * (needed - samples) >= most:
            return most, 0.0, 0.0, 0.0
        is_enough = samples >= needed
        is_new = samples > samples_low and (samples < samples_high or samples_high == 0.0)
        if is_new and is_enough:
            high, samples_high, cost_high = mu, samples, cost
        elif is_new:
            low, samples_low, cost_low = mu, samples, cost
        if samples_high == 0.0:
            samples_high, cost_high = _last_corner(first, last, speed, weight)
            if samples_high < needed:
                return np.inf, 0.0, 0.0, 0.0
        mu = (cost_high - cost_low) / (samples_high - samples_low)
    share = (needed - samples_low) / (samples_high - samples_low)
    return (1.0 - share) * cost_low + share * cost_high, low, high, share


@kernel
def _corner(first: int, last: int, speed: Floats, weight: Floats, mu: float) -> tuple[float, float]:
    """S(mu) and W(mu)."""
    samples, cost = 0.0, 0.0
    for t in range(first, last + 1):
        best, s, w = 0.0, 0.0, 0.0
        for k in range(len(speed)):
            gain = mu * speed[k] - weight[t, k]
            if gain > best:
                best, s, w = gain, speed[k], weight[t, k]
        samples += s
        cost += w
    return samples, cost


@kernel
def _last_corner(first: int, last: int, speed: Floats, weight: Floats) -> tuple[float, float]:
    """S and W of mu without end: the quickest cell of each slot, and of those the cheapest."""
    samples, cost = 0.0, 0.0
    for t in range(first, last + 1):
        k = _best_type(t, speed, weight, np.inf)
        if k >= 0:
            samples += speed[k]
            cost += weight[t, k]
    return samples, cost


@kernel
def _best_type(t: int, speed: Floats, weight: Floats, mu: float) -> int:
    """Return the type on which the slot is worth most at mu money a sample, or -1 if none is.

    With infinite mu the quickest, and of those the cheapest.
    """
    which = -1
    if mu == np.inf:
        quickest, least = 0.0, np.inf
        for k in range(len(speed)):
            w = weight[t, k]
            is_better = speed[k] > quickest or (speed[k] == quickest and w < least)
            if speed[k] > 0.0 and w < np.inf and is_better:
                quickest, least, which = speed[k], w, k
        return which
    best = 0.0
    for k in range(len(speed)):
        if speed[k] > 0.0 and mu * speed[k] - weight[t, k] > best:
            best, which = mu * speed[k] - weight[t, k], k
    return which


@kernel
def _take(
    start: int,
    last: int,
    speed: Floats,
    mu: float,
    share: float,
    weight: Floats,
    taken: AggregateDemand,
) -> None:
    """Add this share of the cells of a corner to what is taken."""
    if share <= 0.0:
        return
    for t in range(start, last + 1):
        k = _best_type(t, speed, weight, mu)
        if k >= 0:
            taken.samples[t, k] += taken.times * share * speed[k]
            taken.gigabytes[t, k] += taken.times * share * taken.memory_gb
