"""Tasks that one node type runs: the m cheapest slots, m = ceil(M / s).

The window is walked from the deadline backwards with the m least weights kept, so that one pass
serves all vendors' delays. Costs are added up anew at each start: a sum that terms had been taken
out of again would have the rounding of the largest of them.
"""

import numpy as np

from auctune.auction.book import Floats
from auctune.auction.dual.problem import Buffers, Taken, Window, count_cells, keep_least
from auctune.numerics.jit import kernel


@kernel
def answer_of_one_type(
    window: Window,
    k: int,
    s: float,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: Taken,
) -> float:
    """The task's least cost, its cells added to what is taken; or its bid, if that is no more."""
    span = window.last + 1 - window.begin
    num_cells = count_cells(needed, s, span + 1)
    if num_cells > span:
        return bid
    weight, least, start_price = buffers.weight, buffers.least, buffers.start_price
    size = 0
    cost, start, dearest = bid, -1, 0.0
    for t in range(window.last, window.begin - 1, -1):
        # A cell that costs more than the bid is in no answer.
        if weight[t, k] < bid:
            size = keep_least(least, size, num_cells, weight[t, k])
        price = start_price[t]
        if size < num_cells or price >= cost:
            continue
        total = price + np.sum(least[:num_cells])
        if total < cost:
            cost, start, dearest = total, t, least[num_cells - 1]
    if start >= 0:
        _take_cheapest(window, k, s, start, num_cells, dearest, weight, taken)
    return cost


@kernel
def _take_cheapest(
    window: Window,
    k: int,
    s: float,
    start: int,
    num_cells: int,
    dearest: float,
    weight: Floats,
    taken: Taken,
) -> None:
    samples, gigabytes = taken.samples, taken.gigabytes
    more_samples, more_gb = taken.times * s, taken.times * taken.memory_gb
    num_tied = num_cells
    for t in range(start, window.last + 1):
        if weight[t, k] < dearest:
            num_tied -= 1
    for t in range(start, window.last + 1):
        w = weight[t, k]
        is_taken = w < dearest
        if w == dearest and num_tied > 0:
            num_tied -= 1
            is_taken = True
        if is_taken:
            samples[t, k] += more_samples
            gigabytes[t, k] += more_gb
