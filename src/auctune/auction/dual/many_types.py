"""Tasks that several node types run, no slot used twice: a dynamic program over counts of cells.

A state is how many cells of each type are taken from slot t on; a slot adds one cell of one type
or none. Where there are too many states, a lower bound on the least cost takes the place of the
least cost, which keeps the dual an upper bound: with cells cut at will,
 max over mu >= 0 of mu * M - sum_t max(0, max_k (mu * s_k - w_tk)).
"""

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.dual.problem import Buffers, Taken, Window
from auctune.numerics.jit import kernel

_MOST_STATES = 20_000
_BISECTIONS = 60


@kernel
def answer_of_many_types(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: Taken,
) -> float:
    """v of the task (or a little more, see the module), its cells added to what is taken."""
    num_types = len(speed)
    sizes, step = np.ones(num_types, dtype=np.int64), np.ones(num_types, dtype=np.int64)
    num_states = 1
    for k in range(num_types):
        step[k] = num_states
        if speed[k] > 0.0:
            sizes[k] = min(int(np.ceil(needed / speed[k])), window.last + 1 - window.begin) + 1
        num_states *= sizes[k]
        if num_states > _MOST_STATES:
            return _bounded(window, speed, needed, bid, buffers, taken)
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
    taken: Taken,
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
        if price == np.inf:
            continue
        for state in states:
            if done[state] >= needed and price + cost[state] < best:
                best, start, final = price + cost[state], t, state
    if start < 0:
        return 0.0
    state = final
    for t in range(start, window.last + 1):
        k = chosen[t - window.begin, state]
        if k >= 0:
            taken.samples[t, k] += taken.times * speed[k]
            taken.gigabytes[t, k] += taken.times * taken.memory_gb
            state -= step[k]
    return bid - best


@kernel
def _bounded(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: Taken,
) -> float:
    start_price = buffers.start_price
    best, start, at = bid, -1, 0.0
    for t in range(window.begin, window.last + 1):
        price = start_price[t]
        if price == np.inf:
            continue
        mu, cost = _cut_cells(t, window.last, speed, needed, buffers.weight)
        if price + cost < best:
            best, start, at = price + cost, t, mu
    if start < 0:
        return 0.0
    share = min(1.0, needed / max(_worth_having(start, window.last, speed, buffers.weight, at)[0],
                                  needed))  # fmt: skip
    for t in range(start, window.last + 1):
        k = _best_type(t, speed, buffers.weight, at)
        if k >= 0:
            taken.samples[t, k] += taken.times * share * speed[k]
            taken.gigabytes[t, k] += taken.times * share * taken.memory_gb
    return bid - best


@kernel
def _cut_cells(
    first: int, last: int, speed: Floats, needed: float, weight: Floats
) -> tuple[float, float]:
    """A multiplier near the best, and the bound that the one just below it gives."""
    most, low, high = 0.0, 0.0, 0.0
    quickest, slowest = 0.0, np.inf
    for k in range(len(speed)):
        if speed[k] > 0.0:
            quickest = max(quickest, speed[k])
            slowest = min(slowest, speed[k])
            for t in range(first, last + 1):
                high = max(high, weight[t, k])
    most = (last + 1 - first) * quickest
    if most < needed:
        return 0.0, np.inf
    # There every slot is worth having, on its quickest type or one that pays as well.
    high = 2.0 * high / slowest + 1e-300
    for _ in range(_BISECTIONS):
        mu = 0.5 * (low + high)
        if _worth_having(first, last, speed, weight, mu)[0] >= needed:
            high = mu
        else:
            low = mu
    return high, low * needed - _worth_having(first, last, speed, weight, low)[1]


@kernel
def _worth_having(
    first: int, last: int, speed: Floats, weight: Floats, mu: float
) -> tuple[float, float]:
    """Samples of the cells that pay at mu money a sample, and what they gain."""
    samples, gain = 0.0, 0.0
    for t in range(first, last + 1):
        k = _best_type(t, speed, weight, mu)
        if k >= 0:
            samples += speed[k]
            gain += mu * speed[k] - weight[t, k]
    return samples, gain


@kernel
def _best_type(t: int, speed: Floats, weight: Floats, mu: float) -> int:
    best, which = 0.0, -1
    for k in range(len(speed)):
        if speed[k] > 0.0 and mu * speed[k] - weight[t, k] > best:
            best, which = mu * speed[k] - weight[t, k], k
    return which
