"""Steps on the duals of scenarios, against the dual's minimum."""

import numpy as np

from auctune.auction.dual import to_columns, whole_supply
from auctune.auction.dual.columns import Supply
from auctune.auction.dual.dual import Dual
from auctune.auction.dual.scenarios import DemandScenarios, descend_scenarios, usual_prices
from auctune.auction.pricing.demand_history import select_rows
from auctune.numerics.arrays import Floats
from support.markets import random_market
from support.priced_markets import lowest_prices

DAY = random_market(np.random.default_rng(7), slots=6, nodes=25, num_tasks=250, max_types=2)
COLUMNS = to_columns(DAY.tasks, DAY.cluster)
ROWS = np.array([np.arange(250), np.arange(250)[::-1]])
WEIGHTS = np.array([np.ones(250), np.full(250, 2.0)])


def scenarios() -> DemandScenarios:
    """Two of the same bids, once and twice, in both orders; all arrive in the first slot."""
    pool = COLUMNS._replace(deadline=COLUMNS.deadline - COLUMNS.arrival)
    return DemandScenarios(pool, ROWS, np.zeros(250, dtype=np.int64), WEIGHTS)


def dual(s: int, supply: Supply) -> Dual:
    """The dual of a scenario, built by itself."""
    columns = select_rows(scenarios().pool, ROWS[s])
    return Dual(
        supply, columns._replace(arrival=np.zeros(250, dtype=np.int64)), WEIGHTS[s], "relaxed"
    )


def descended(num_steps: int, num_rows: int = 6) -> tuple[Supply, Floats, Floats]:
    supply = whole_supply(DAY.cluster)
    shape = (2, *supply.compute.shape)
    lam, phi = np.full(shape, usual_prices(COLUMNS)[0]), np.zeros(shape)
    shares = np.maximum(0.3 / np.arange(1, num_steps + 1), 0.01)
    descend_scenarios(
        supply, scenarios(), lam, phi, num_rows=num_rows, shares=shares, least_supply=0.05
    )
    return supply, lam, phi


def test_many_steps_come_near_the_minimum_of_each_scenario() -> None:
    supply, lam, phi = descended(400)
    for s in range(2):
        one = dual(s, supply)
        least = lowest_prices(supply, one.columns, WEIGHTS[s], answers="relaxed").value
        found = one.value(one.respond(lam[s], phi[s]))
        assert least * (1 - 1e-6) <= found <= least * 1.03


def test_a_bid_of_0_that_a_node_type_cannot_hold_moves_no_price() -> None:
    """And warns of no division."""
    supply = whole_supply(DAY.cluster)
    throughput, bid = COLUMNS.throughput.copy(), COLUMNS.bid.copy()
    throughput[0], bid[0] = 0.0, 0.0
    pool = scenarios().pool._replace(bid=bid, throughput=throughput)
    prices = []
    for weights in (WEIGHTS, WEIGHTS * (ROWS > 0)):
        one = scenarios()._replace(pool=pool, weights=weights)
        lam, phi = np.full((2, *supply.compute.shape), 0.1), np.zeros((2, *supply.compute.shape))
        steps = np.array([0.01])
        descend_scenarios(supply, one, lam, phi, num_rows=6, shares=steps, least_supply=0.05)
        prices.append(lam)
    assert np.array_equal(prices[0], prices[1])


def test_a_step_raises_prices_where_more_is_asked_for_than_there_is() -> None:
    supply, before, memory = descended(0)
    _, after, _ = descended(1)
    for s in range(2):
        excess = dual(s, supply).respond(before[s], memory[s]).samples - supply.compute
        assert np.array_equal(np.sign(after[s] - before[s]), np.sign(excess))


def test_rows_beyond_those_that_may_move_keep_their_prices() -> None:
    _, before, _ = descended(0)
    _, after, _ = descended(3, num_rows=2)
    assert (after[:, :2] != before[:, :2]).any()
    assert np.array_equal(after[:, 2:], before[:, 2:])
