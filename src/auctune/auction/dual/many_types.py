"""Best responses of tasks that several node types run, no slot used twice.

A dynamic program over counts of cells: a state is how many cells of each type are taken from slot t
on; a slot adds one cell of one type or none.
"""

import numpy as np

from auctune.auction.dual.problem import AggregateDemand, Buffers, Window, count_cells
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel

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
