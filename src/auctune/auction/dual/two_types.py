"""Best responses of tasks that two node types run: counts of cells first.

A schedule holds n_a cells of one type and n_b of the other; for each n_a the least n_b that does
the work is enough. The n_a and n_b cheapest cells cost no more than any schedule with these
counts, and where they lie in different slots they are one. So the cheapest pair of counts whose
cells do not meet in a slot is the least cost; if they do meet, the answer is left to a search
that keeps slots apart.
"""

import numpy as np

from auctune.auction.dual.problem import AggregateDemand, Buffers, Window, count_cells, keep_least
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

CLASH = -1.0


@kernel
def respond_two_types(
    window: Window,
    a: int,
    b: int,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: AggregateDemand,
) -> float:
    """The task's least cost, its cells added to what is taken; or its bid, if that is no more.

    Or CLASH, with nothing added.
    """
    weight, least_a, least_b = buffers.weight, buffers.least, buffers.other_least
    start_price = buffers.start_price
    span = window.last + 1 - window.begin
    most_a, most_b = count_cells(needed, speed[a], span), count_cells(needed, speed[b], span)
    for n in range(most_a + 1):
        rest = needed - n * speed[a]
        buffers.counts[n] = count_cells(rest, speed[b], span + 1) if rest > 0.0 else 0
    size_a, size_b = 0, 0
    cost, start, num_a, num_b = bid, -1, 0, 0
    dearest_a, dearest_b = 0.0, 0.0
    for t in range(window.last, window.begin - 1, -1):
        # A cell that costs more than the bid is in no answer.
        if weight[t, a] < bid:
            size_a = keep_least(least_a, size_a, most_a, weight[t, a])
        if weight[t, b] < bid:
            size_b = keep_least(least_b, size_b, most_b, weight[t, b])
        price = start_price[t]
        if price >= cost:
            continue
        n, m, cells = _cheapest_counts(
            least_a[:size_a], least_b[:size_b], buffers.counts, buffers.sums, window.last + 1 - t
        )
        if price + cells < cost:
            cost, start, num_a, num_b = price + cells, t, n, m
            dearest_a = least_a[n - 1] if n > 0 else -1.0
            dearest_b = least_b[m - 1] if m > 0 else -1.0
    if start < 0:
        return bid
    for adding in (False, True):
        apart = _take_both(
            window, a, b, speed, start, num_a, num_b, dearest_a, dearest_b, weight, taken, adding
        )
        if not apart:
            return CLASH
    return cost


@kernel
def _cheapest_counts(
    least_a: Floats, least_b: Floats, counts: Ints, sums: Floats, num_slots: int
) -> tuple[int, int, float]:
    """The pair of counts whose cheapest cells cost least, and that cost; infinite if none fits."""
    best_a, best_b, best = 0, 0, np.inf
    # Nothing is ever taken out of a sum: the rounding of a dear cell would stay in it.
    sums[0] = 0.0
    for j in range(len(least_b)):
        sums[j + 1] = sums[j] + least_b[j]
    sum_a = 0.0
    for n in range(len(least_a) + 1):
        if n > 0:
            sum_a += least_a[n - 1]
        m = counts[n]
        if m <= len(least_b) and n + m <= num_slots and sum_a + sums[m] < best:
            best_a, best_b, best = n, m, sum_a + sums[m]
        if m == 0:
            break
    return best_a, best_b, best


@kernel
def _take_both(
    window: Window,
    a: int,
    b: int,
    speed: Floats,
    start: int,
    num_a: int,
    num_b: int,
    dearest_a: float,
    dearest_b: float,
    weight: Floats,
    taken: AggregateDemand,
    adding: bool,
) -> bool:
    """Walk the cheapest cells of both types, adding them or not; whether no slot holds two.

    Among equal weights a takes the earliest slots and b the latest, to keep out of each other's
    way.
    """
    samples, gigabytes = taken.samples, taken.gigabytes
    left_a, skip_b = num_a, -num_b
    for t in range(start, window.last + 1):
        left_a -= weight[t, a] < dearest_a
        skip_b += weight[t, b] <= dearest_b
    for t in range(start, window.last + 1):
        takes_a = num_a > 0 and weight[t, a] < dearest_a
        if num_a > 0 and weight[t, a] == dearest_a and left_a > 0:
            left_a -= 1
            takes_a = True
        takes_b = num_b > 0 and weight[t, b] < dearest_b
        if num_b > 0 and weight[t, b] == dearest_b:
            takes_b = skip_b <= 0
            skip_b -= 1
        if takes_a and takes_b:
            return False
        if adding and (takes_a or takes_b):
            k = a if takes_a else b
            samples[t, k] += taken.times * speed[k]
            gigabytes[t, k] += taken.times * taken.memory_gb
    return True
