"""Subgradient steps on the duals of several demand scenarios, in one kernel.

Scenarios share a pool of bids, the supply and the slots; each has its own rows of the pool, weights
and prices. Every response of a scenario's bids is a step: a price rises by what is asked for beyond
the supply of its cell, as a share of that supply, and falls by what is left over. No step is taken
back. A quasi-Newton method with a line search needs several times as many responses, and gains
little where it starts near the minimum: there the dual of a few bids is all edges.

Only the first rows may move. Prices beyond them stay, and no bid arrives there: the dual is convex,
and steps in a part of its variables are steps all the same. So prices of the next hours, which bids
pay that are decided now, can be renewed much more often than those of tomorrow.

Shapes: S scenarios, I bids of one, T slots, K node types.
"""

from typing import NamedTuple

import numpy as np

from auctune.auction.dual.columns import Supply, TaskColumns
from auctune.auction.dual.dual import held_throughput
from auctune.auction.dual.problem import make_buffers
from auctune.auction.dual.response import respond_task
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel


class DemandScenarios(NamedTuple):
    """Bids that may come, in each of several equally likely scenarios."""

    pool: TaskColumns  # bids to choose from, slots counted from each one's arrival
    rows: Ints  # [S, I] of the pool
    arrival: Ints  # [I] slots
    weights: Floats  # [S, I] how many such bids there are


def descend_scenarios(
    supply: Supply,
    scenarios: DemandScenarios,
    lam: Floats,
    phi: Floats,
    *,
    num_rows: int,
    shares: Floats,
    least_supply: float,
) -> None:
    """Move each scenario's prices towards the minimum of its dual.

    Args:
        supply: what is for sale.
        scenarios: bids to come, which arrive in these rows; where several types run one, it may
            cut cells.
        lam, phi: [S, T, K] where to start; changed in place.
        num_rows: first slots whose prices may move.
        shares: of the usual price; a step for each, by which a demand of twice the supply raises
            a price.
        least_supply: a slot nearly sold out counts as this share of the emptiest one.
    """
    pool = scenarios.pool._replace(throughput=held_throughput(scenarios.pool, supply))
    descend(
        pool, scenarios.rows, scenarios.arrival, scenarios.weights, supply,
        *usual_prices(pool), *_highest_prices(pool), num_rows, shares, least_supply,
        lam, phi,
    )  # fmt: skip


def usual_prices(pool: TaskColumns) -> tuple[float, float]:
    """Return medians of money per sample and per GB-slot: a few absurd bids do not move them."""
    quickest = pool.throughput.max(axis=1, initial=0.0)
    counts = (quickest > 0) & (pool.bid > 0) & (pool.memory_gb > 0)
    if not counts.any():
        return 1.0, 1.0
    bid, work = pool.bid[counts], pool.work[counts]
    gigabytes = np.ceil(work / quickest[counts]) * pool.memory_gb[counts]
    return float(np.median(bid / work)), float(np.median(bid / gigabytes))


def _highest_prices(pool: TaskColumns) -> tuple[Floats, Floats]:
    """Return [K] money per sample and [K] per GB-slot above which no bid pays for a cell."""
    # A bid of 0 for what cannot be held is 0 / 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        per_sample = pool.bid[:, None] / pool.throughput
        per_gb = pool.bid / pool.memory_gb
    lam = np.where(pool.throughput > 0, per_sample, 0.0).max(axis=0, initial=0.0)
    return lam, np.full_like(lam, per_gb[np.isfinite(per_gb)].max(initial=0.0))


@kernel
def descend(
    pool: TaskColumns,
    rows: Ints,
    arrival: Ints,
    weights: Floats,
    supply: Supply,
    lam_unit: float,
    phi_unit: float,
    highest_lam: Floats,
    highest_phi: Floats,
    num_rows: int,
    shares: Floats,
    least_supply: float,
    lam: Floats,
    phi: Floats,
) -> None:
    """Take steps down the dual of one scenario, in place in `lam` and `phi`."""
    num_slots, num_types = supply.compute.shape
    buffers = make_buffers(num_slots, num_types)
    samples, gigabytes = np.empty((num_slots, num_types)), np.empty((num_slots, num_types))
    compute, memory, energy, last = supply.compute, supply.memory, supply.energy, num_slots - 1
    deadline, work, memory_gb, bid = pool.deadline, pool.work, pool.memory_gb, pool.bid
    throughput, own_cost, costs = pool.throughput, pool.own_cost, pool.costs
    first_quote, quote_price, quote_delay = pool.first_quote, pool.quote_price, pool.quote_delay
    for s in range(len(lam)):
        for share in shares:
            samples[:] = 0.0
            gigabytes[:] = 0.0
            for i in range(len(arrival)):
                r, start = rows[s, i], arrival[i]
                quotes = slice(first_quote[r], first_quote[r + 1])
                respond_task(
                    start, min(start + deadline[r], last), work[r], memory_gb[r], bid[r],
                    throughput[r], quote_price[quotes], quote_delay[quotes], own_cost[r], costs,
                    weights[s, i], energy, lam[s], phi[s], True, buffers, samples, gigabytes,
                )  # fmt: skip
            _move(lam[s], num_rows, compute, samples, share * lam_unit, highest_lam, least_supply)
            _move(phi[s], num_rows, memory, gigabytes, share * phi_unit, highest_phi, least_supply)


@kernel
def _move(
    prices: Floats,
    num_rows: int,
    supply: Floats,
    demand: Floats,
    unit: float,
    highest: Floats,
    least_supply: float,
) -> None:
    """Raise the prices of these rows by the excess demand, none below 0 or above the highest."""
    for k in range(prices.shape[1]):
        least = least_supply * np.max(supply[:, k])
        for t in range(num_rows):
            whole = max(supply[t, k], least)
            if whole > 0.0:
                excess = (demand[t, k] - supply[t, k]) / whole
                prices[t, k] = min(max(0.0, prices[t, k] + unit * excess), highest[k])
