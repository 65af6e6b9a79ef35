"""The best answer of every task to given prices: the heart of the Lagrangian dual.

Prices are one a slot and node type. With weights of cells
 w_tk = e_itk + lam_tk * s_ik + phi_tk * r_i
a task's least cost c_i is the minimum over vendors n and schedules l of q_in + sum of w over l, and
 v_i = b_i - min(b_i, c_i).
Answers are exact, or `relaxed`: tasks that several types run may cut cells, which is many times as
fast, convex in the prices too, and never less than v_i. Exact ones are relaxed where there are too
many states to look at.

Shapes: T slots, K node types, I tasks.
"""

import numpy as np

from auctune.auction.dual.exact import (
    CLASH,
    TOO_MANY,
    respond_many_types,
    respond_one_type,
    respond_two_types,
)
from auctune.auction.dual.problem import (
    AggregateDemand,
    Buffers,
    Window,
    make_buffers,
    price_starts,
)
from auctune.auction.dual.relaxed import pays_relaxed, respond_relaxed
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.jit import kernel


@kernel
def respond(
    arrival: Ints,
    deadline: Ints,
    work: Floats,
    memory_gb: Floats,
    bid: Floats,
    throughput: Floats,
    first_quote: Ints,
    quote_price: Floats,
    quote_delay: Ints,
    own_cost: Ints,
    costs: Floats,
    weights: Floats,
    energy: Floats,
    lam: Floats,
    phi: Floats,
    relaxed: bool,
    samples: Floats,
    gigabytes: Floats,
    spent: Floats,
) -> None:
    """Let every task choose its best schedule at these prices.

    Args:
        arrival .. costs: the fields of TaskColumns; throughput is 0 where no node can hold it.
        weights: [I] how many such tasks there are.
        energy: [T, K] operating cost per sample.
        lam, phi: [T, K].
        relaxed: whether tasks that several types run may cut cells.
        samples, gigabytes: [T, K]; what the tasks take is added, each as often as its weight says.
        spent: [I]; set to the least cost of each task, or its bid, if that is no more.
    """
    num_slots, num_types = lam.shape
    buffers = make_buffers(num_slots, num_types)
    for i in range(len(work)):
        spent[i] = bid[i]
        if weights[i] <= 0.0:
            continue
        quotes = slice(first_quote[i], first_quote[i + 1])
        prices, delays = quote_price[quotes], quote_delay[quotes]
        window = Window(arrival[i], arrival[i] + np.min(delays), deadline[i])
        if window.begin > window.last:
            continue
        speed = throughput[i]
        _weigh(
            window, speed, memory_gb[i], bid[i], own_cost[i], costs, energy, lam, phi,
            buffers.weight,
        )  # fmt: skip
        price_starts(window, prices, delays, buffers.start_price)
        taken = AggregateDemand(samples, gigabytes, weights[i], memory_gb[i])
        needed = work[i] * (1.0 - FIT)
        spent[i] = _respond_one(window, speed, needed, bid[i], relaxed, buffers, taken)


@kernel
def _weigh(
    window: Window,
    speed: Floats,
    memory_gb: float,
    bid: float,
    own_cost: int,
    costs: Floats,
    energy: Floats,
    lam: Floats,
    phi: Floats,
    weight: Floats,
) -> None:
    for k in range(len(speed)):
        s = speed[k]
        if s <= 0.0:
            weight[window.begin : window.last + 1, k] = np.inf
            continue
        for t in range(window.begin, window.last + 1):
            cost = costs[own_cost, k, t] if own_cost >= 0 else energy[t, k] * s
            if cost < bid:
                weight[t, k] = cost + lam[t, k] * s + phi[t, k] * memory_gb
            else:
                # In no answer at any prices: relaxed ones shall not take a part of it either.
                weight[t, k] = np.inf


@kernel
def _respond_one(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    relaxed: bool,
    buffers: Buffers,
    taken: AggregateDemand,
) -> float:
    """Return what one task spends, its cells added to what is taken."""
    last, before, num_used = -1, -1, 0
    for k in range(len(speed)):
        if speed[k] > 0.0:
            before = last
            last = k
            num_used += 1
    if num_used == 0:
        return bid
    if num_used == 1:
        return respond_one_type(window, last, speed[last], needed, bid, buffers, taken)
    if not relaxed:
        if num_used == 2:
            spent = respond_two_types(window, before, last, speed, needed, bid, buffers, taken)
            if spent != CLASH:
                return spent
        # Many times as fast as the search of all states, which it often saves.
        if not pays_relaxed(window, speed, needed, bid, buffers):
            return bid
        spent = respond_many_types(window, speed, needed, bid, buffers, taken)
        if spent != TOO_MANY:
            return spent
    return respond_relaxed(window, speed, needed, bid, buffers, taken)
