"""The best answer of every task to given prices: the heart of the Lagrangian dual.

Prices are one a slot and node type. With weights of cells
 w_tk = e_itk + lam_tk * s_ik + phi_tk * r_i
a task's least cost is the minimum over vendors n and schedules l of q_in + sum of w over l, and
 v_i = max(0, b_i - least cost).

Shapes: T slots, K node types, I tasks.
"""

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.dual.many_types import answer_of_many_types
from auctune.auction.dual.one_type import answer_of_one_type
from auctune.auction.dual.problem import Buffers, Taken, Window, make_buffers, price_starts
from auctune.auction.dual.two_types import CLASH, answer_of_two_types
from auctune.auction.tolerance import FIT
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
    samples: Floats,
    gigabytes: Floats,
) -> float:
    """Let every task choose its best schedule at these prices.

    Args:
        arrival .. costs: the fields of TaskColumns; throughput is 0 where no node can hold it.
        weights: [I] how many such tasks there are.
        energy: [T, K] operating cost per sample.
        lam, phi: [T, K].
        samples, gigabytes: [T, K]; what the tasks take is added.

    Returns:
        The sum of weights * v.
    """
    num_slots, num_types = lam.shape
    buffers = make_buffers(num_slots, num_types)
    total = 0.0
    for i in range(len(work)):
        if weights[i] <= 0.0:
            continue
        quotes = slice(first_quote[i], first_quote[i + 1])
        prices, delays = quote_price[quotes], quote_delay[quotes]
        window = Window(arrival[i], arrival[i] + np.min(delays), deadline[i])
        if window.begin > window.last:
            continue
        speed = throughput[i]
        _weigh(window, speed, memory_gb[i], own_cost[i], costs, energy, lam, phi, buffers.weight)
        price_starts(window, prices, delays, buffers.start_price)
        taken = Taken(samples, gigabytes, weights[i], memory_gb[i])
        gain = _answer(window, speed, work[i] * (1.0 - FIT), bid[i], buffers, taken)
        total += weights[i] * gain
    return total


@kernel
def _weigh(
    window: Window,
    speed: Floats,
    memory_gb: float,
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
            continue
        for t in range(window.begin, window.last + 1):
            cost = costs[own_cost, k, t] if own_cost >= 0 else energy[t, k] * s
            weight[t, k] = cost + lam[t, k] * s + phi[t, k] * memory_gb


@kernel
def _answer(
    window: Window,
    speed: Floats,
    needed: float,
    bid: float,
    buffers: Buffers,
    taken: Taken,
) -> float:
    """v of one task, its cells added to what is taken."""
    last, before, num_used = -1, -1, 0
    for k in range(len(speed)):
        if speed[k] > 0.0:
            before = last
            last = k
            num_used += 1
    if num_used == 0:
        return 0.0
    if num_used == 1:
        return answer_of_one_type(window, last, speed[last], needed, bid, buffers, taken)
    if num_used == 2:
        gain = answer_of_two_types(window, before, last, speed, needed, bid, buffers, taken)
        if gain != CLASH:
            return gain
    return answer_of_many_types(window, speed, needed, bid, buffers, taken)
