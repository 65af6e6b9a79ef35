"""Best responses of whole cells to given prices, by the number of node types that run the task."""

import numpy as np

from auctune.auction.dual.problem import AggregateDemand, Buffers, Window, count_cells, keep_least
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

# Tasks that one node type runs: the m cheapest slots, m = ceil(M / s).
#
# The window is walked from the deadline backwards with the m least weights kept, so that one pass
# serves all vendors' delays. Costs are added up anew at each start: a sum that terms had been
# taken out of again would have the rounding of the largest of them.


# This is where price updates spend their time: arrays one by one, since tuples of them are copied
# and counted at each call, which took more than the answer.


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


# Tasks that two node types run: counts of cells first.
#
# A schedule holds n_a cells of one type and n_b of the other; for each n_a the least n_b that does
# the work is enough. The n_a and n_b cheapest cells cost no more than any schedule with these
# counts, and where they lie in different slots they are one. So the cheapest pair of counts whose
# cells do not meet in a slot is the least cost; if they do meet, the answer is left to a search
# that keeps slots apart.

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


# Tasks that several node types run, no slot used twice: a dynamic program over counts of cells.
#
# A state is how many cells of each type are taken from slot t on; a slot adds one cell of one type
# or none.

TOO_MANY = -2.0
_MOST_STATES = 20_000


@kernel
def respond_many_types(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: AggregateDemand,
) -> float:
    """The task's least cost, its cells added to what is taken; or its bid, if that is no more.

    Or TOO_MANY, with nothing added, where there are too many states.
    """
    num_types = len(speed)
    sizes, step = np.ones(num_types, dtype=np.int64), np.ones(num_types, dtype=np.int64)
    num_states = 1
    for k in range(num_types):
        step[k] = num_states
        if speed[k] > 0.0:
            sizes[k] = count_cells(needed, speed[k], window.last + 1 - window.begin) + 1
        num_states *= sizes[k]
        if num_states > _MOST_STATES:
            return TOO_MANY
    done = np.zeros(num_states)
    for state in range(num_states):
        for k in range(num_types):
            done[state] += (state // step[k]) % sizes[k] * speed[k]
    states, previous = _useful_states(done, sizes, step, speed, needed)
    return _best_path(
        window, speed, needed, bid, buffers, taken, done, states, previous,
        step,
    )  # fmt: skip


@kernel
def _useful_states(
    done: Floats, sizes: Ints, step: Ints, speed: Floats, needed: float
) -> tuple[Ints, Ints]:
    """States that hold no cell too many, by rising number, and for each type the state before.

    One that does the work already needs no further cell.
    """
    num_states, num_types = len(done), len(sizes)
    states = np.empty(num_states, dtype=np.int64)
    previous = np.full((num_states, num_types), -1, dtype=np.int64)
    is_useful = np.zeros(num_states, dtype=np.bool_)
    is_useful[0] = True
    count = 0
    for state in range(1, num_states):
        for k in range(num_types):
            if speed[k] > 0.0 and (state // step[k]) % sizes[k] > 0:
                before = state - step[k]
                if is_useful[before] and done[before] < needed:
                    previous[count, k] = before
                    is_useful[state] = True
        if is_useful[state]:
            states[count] = state
            count += 1
    return states[:count], previous[:count]


@kernel
def _best_path(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: AggregateDemand,
    done: Floats,
    states: Ints,
    previous: Ints,
    step: Ints,
) -> float:
    num_types = len(speed)
    weight, start_price = buffers.weight, buffers.start_price
    cost = np.full(len(done), np.inf)
    cost[0] = 0.0
    chosen = np.full((window.last + 1 - window.begin, len(done)), -1, dtype=np.int8)
    best, start, final = bid, -1, 0
    for t in range(window.last, window.begin - 1, -1):
        # From high states to low: what a state builds on is still that of the slot after t.
        for place in range(len(states) - 1, -1, -1):
            state = states[place]
            for k in range(num_types):
                before = previous[place, k]
                if before >= 0 and cost[before] + weight[t, k] < cost[state]:
                    cost[state] = cost[before] + weight[t, k]
                    chosen[t - window.begin, state] = k
        price = start_price[t]
        if price >= best:
            continue
        for state in states:
            if done[state] >= needed and price + cost[state] < best:
                best, start, final = price + cost[state], t, state
    if start < 0:
        return bid
    state = final
    for t in range(start, window.last + 1):
        k = chosen[t - window.begin, state]
        if k >= 0:
            taken.samples[t, k] += taken.times * speed[k]
            taken.gigabytes[t, k] += taken.times * taken.memory_gb
            state -= step[k]
    return best
