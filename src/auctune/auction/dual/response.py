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

from auctune.auction.dual.many_types import TOO_MANY, respond_many_types
from auctune.auction.dual.one_type import respond_one_type
from auctune.auction.dual.problem import (
    AggregateDemand,
    Buffers,
    Window,
    make_buffers,
    price_starts,
)
from auctune.auction.dual.relaxed import pays_relaxed, respond_relaxed
from auctune.auction.dual.two_types import CLASH, respond_two_types
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
    buffers = make_buffers(*lam.shape)
    for i in range(len(work)):
        quotes = slice(first_quote[i], first_quote[i + 1])
        spent[i] = respond_task(
            arrival[i], deadline[i], work[i], memory_gb[i], bid[i], throughput[i],
            quote_price[quotes], quote_delay[quotes], own_cost[i], costs, weights[i],
            energy, lam, phi, relaxed, buffers, samples, gigabytes,
        )  # fmt: skip


@kernel
def respond_task(
    arrival: int,
    deadline: int,
    work: float,
    memory_gb: float,
    bid: float,
    speed: Floats,
    prices: Floats,
    delays: Ints,
    own_cost: int,
    costs: Floats,
    times: float,
    energy: Floats,
    lam: Floats,
    phi: Floats,
    relaxed: bool,
    buffers: Buffers,
    samples: Floats,
    gigabytes: Floats,
) -> float:
    """Return the least cost of one task, its cells added to what is taken; or its bid."""
    begin = arrival + int(np.min(delays))
    if times <= 0.0 or begin > deadline:
        return bid
    weight, start_price = buffers.weight, buffers.start_price
    price_starts(arrival, begin, deadline, prices, delays, start_price)
    last, before, num_used = -1, -1, 0
    for k in range(len(speed)):
        if speed[k] <= 0.0:
            continue
        before = last
        last = k
        num_used += 1
        _weigh(
            begin, deadline, k, speed[k], memory_gb, bid, own_cost, costs, energy, lam, phi, weight
        )
    needed = work * (1.0 - FIT)
    if num_used == 0:
        return bid
    if num_used == 1:
        return respond_one_type(
            begin, deadline, last, speed[last], needed, bid, times, memory_gb, weight,
            buffers.least, start_price, samples, gigabytes,
        )  # fmt: skip
    for k in range(len(speed)):
        if speed[k] <= 0.0:
            weight[begin : deadline + 1, k] = np.inf
    window = Window(arrival, begin, deadline)
    taken = AggregateDemand(samples, gigabytes, times, memory_gb)
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


@kernel
def _weigh(
    begin: int,
    last: int,
    k: int,
    s: float,
    memory_gb: float,
    bid: float,
    own_cost: int,
    costs: Floats,
    energy: Floats,
    lam: Floats,
    phi: Floats,
    weight: Floats,
) -> None:
    for t in range(begin, last + 1):
        cost = costs[own_cost, k, t] if own_cost >= 0 else energy[t, k] * s
        if cost < bid:
            weight[t, k] = cost + lam[t, k] * s + phi[t, k] * memory_gb
        else:
            # In no answer at any prices: relaxed ones shall not take a part of it either.
            weight[t, k] = np.inf
