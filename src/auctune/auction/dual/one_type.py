"""Best responses of tasks that one node type runs: the m cheapest slots, m = ceil(M / s).

The window is walked from the deadline backwards with the m least weights kept, so that one pass
serves all vendors' delays. Costs are added up anew at each start: a sum that terms had been
taken out of again would have the rounding of the largest of them.

This is where price updates spend their time: arrays one by one, since tuples of them are copied
and counted at each call, which took more than the answer.
"""

from auctune.auction.dual.problem import count_cells, keep_least
from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel


@kernel
def respond_one_type(
    begin: int,
    last: int,
    k: int,
    s: float,
    needed: float,
    bid: float,
    times: float,
    memory_gb: float,
    weight: Floats,
    least: Floats,
    start_price: Floats,
    samples: Floats,
    gigabytes: Floats,
) -> float:
    """The task's least cost, its cells added to what is taken; or its bid, if that is no more."""
    span = last + 1 - begin
    num_cells = count_cells(needed, s, span + 1)
    if num_cells > span:
        return bid
    size = 0
    cost, start, dearest = bid, -1, 0.0
    for t in range(last, begin - 1, -1):
        # A cell that costs more than the bid is in no answer.
        if weight[t, k] < bid:
            size = keep_least(least, size, num_cells, weight[t, k])
        if size < num_cells or start_price[t] >= cost:
            continue
        total = 0.0
        for n in range(num_cells):
            total += least[n]
        total += start_price[t]
        if total < cost:
            cost, start, dearest = total, t, least[num_cells - 1]
    if start < 0:
        return cost
    more_samples, more_gb = times * s, times * memory_gb
    num_tied = num_cells
    for t in range(start, last + 1):
        if weight[t, k] < dearest:
            num_tied -= 1
    for t in range(start, last + 1):
        w = weight[t, k]
        is_taken = w < dearest
        if w == dearest and num_tied > 0:
            num_tied -= 1
            is_taken = True
        if is_taken:
            samples[t, k] += more_samples
            gigabytes[t, k] += more_gb
    return cost
