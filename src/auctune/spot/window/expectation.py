"""The window program where the slots to come are uncertain: scenarios and expectations."""

import math
from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.account import JobConstants, can_be_held, num_states, on_demand_of, state_of
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.grid import UNCHANGED
from auctune.spot.value import termination_cost, termination_slots, value_at
from auctune.spot.window.table import (
    TableScratch,
    best_state,
    check_memory,
    fill_costs,
    fill_slot,
    lowest_column,
    make_table_scratch,
    target_units,
)

# Scenarios of the slots to come, from the quantiles of forecasts.
#
# A slot has five scenarios, each as likely, with the quantiles 0.1, 0.3, ..., 0.9 of its count;
# each goes with another quantile of its price, in an order without correlation.


SCENARIO_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
# Of the price, beside those of the count.
PAIRED = np.array([1, 4, 2, 0, 3])


def _at_levels(levels: Floats, quantiles: Floats) -> Floats:
    """[h, i] between the quantiles at hand, and those at the ends beyond them."""
    right = np.searchsorted(levels, SCENARIO_LEVELS, side="right")
    lower = np.maximum(right - 1, 0)
    upper = np.minimum(right, len(levels) - 1)
    gap = levels[upper] - levels[lower]
    share = (SCENARIO_LEVELS - levels[lower]) / np.where(gap > 0, gap, 1.0)
    share = np.where(gap > 0, share, 0.0)
    below = quantiles[..., lower]
    return np.asarray(below + share * (quantiles[..., upper] - below))


# The window program where the slots to come are uncertain.
#
# Each slot to come brings one of a few scenarios of price and count, and is seen before it is
# decided. Scenarios are the states of a Markov chain: after a slot in scenario i the next one has
# scenario j with probability P[i, j]. So, with A_h[i] the value of what comes after slot h in
# scenario i,
#
#     value_h[i][last][k] = the window program's step with the costs of scenario i and A_h[i]
#     A_{h-1}[i] = sum over j of P[i, j] value_h[j]
#
# and the slot that is seen is decided by the A of its own row of P. The quantiles of forecasts
# stick: P[i, j] = rho [i = j] + (1 - rho) / I with rho the `persistence`. Two multipliers turn
# constraints into prices: `late` is paid when work is left at the deadline, `cost` on top of each
# unit of cost.


class Scenarios(NamedTuple):
    """What slots t, t + 1, ..., d - 1 may bring.

    Attributes:
        price: [h, i] of scenario i; row 0, the slot that is seen, is not read.
        available: [h, i].
        transition: [r, i] P; rows beyond the scenarios' own are only for the slot that is seen.
        present: row of the slot that is seen.
        worst: [r, i] P of the worst market that is likely, by which the risk of being late is
            limited; P itself where there is no other.
    """

    price: Floats
    available: Ints
    transition: Floats
    present: int
    worst: Floats


def make_scenarios(
    price: float, available: int, forecast: Forecast | None, num_ahead: int, persistence: float
) -> Scenarios:
    """Return the slot that is seen, and scenarios of those after it.

    Args:
        price, available: of the slot that is seen.
        forecast: of at least `num_ahead` slots, if any: by its chain, else by its quantiles, and
            one scenario where it has neither.
        num_ahead: slots to come.
        persistence: rho, with which quantiles stick.
    """
    prices, counts = np.empty((0, 1)), np.empty((0, 1), dtype=np.int64)
    transition, present = np.ones((2, 1)), 1
    worst: Floats | None = None
    if forecast is not None and forecast.chain is not None:
        chain = forecast.chain
        shape = (num_ahead, len(chain.price))
        prices, counts = (
            np.broadcast_to(chain.price, shape),
            np.broadcast_to(chain.available, shape),
        )
        transition, present, worst = chain.transition, chain.present, chain.worst
    elif forecast is not None and len(forecast.levels):
        levels, num = forecast.levels, len(SCENARIO_LEVELS)
        quantiles = forecast.available_quantiles[:num_ahead].astype(np.float64)
        prices = _at_levels(levels, forecast.price_quantiles[:num_ahead])[:, PAIRED]
        counts = np.floor(_at_levels(levels, quantiles) + 0.5).astype(np.int64)
        drawn = np.full((num + 1, num), 1.0 / num)
        transition, present = (1.0 - persistence) * drawn, num
        transition[:num] += persistence * np.eye(num)
        transition[num] = drawn[num]
    elif forecast is not None:
        prices, counts = forecast.price[:num_ahead, None], forecast.available[:num_ahead, None]
    now = (1, prices.shape[1])
    return Scenarios(
        np.concatenate((np.full(now, price), prices)),
        np.concatenate((np.full(now, available, dtype=np.int64), counts)),
        np.ascontiguousarray(transition),
        present,
        np.ascontiguousarray(transition if worst is None else worst),
    )


class Multipliers(NamedTuple):
    """Prices of the two constraints.

    Attributes:
        late: for missing the deadline.
        cost: for each unit of cost, on top of it.
    """

    late: float
    cost: float


class ExpectationScratch(NamedTuple):
    """Work buffers.

    Attributes:
        value: [i, n, k] of beginning a slot with k done after state n, in scenario i.
        ahead: [w + 1, r, n, k] A of the slots t..t + w - 1; the last one serves those after.
        table: of the slot at hand.
    """

    value: Floats
    ahead: Floats
    table: TableScratch


# Of the tables that a program keeps beside those at work, so as not to be solved in each slot: with
# one GPU as many slots of two days' work as a chain stands for.
KEPT_BYTES = 96 * 2**20


def make_expectation_scratch(
    terms: JobConstants, num_rows: int, num_scenarios: int, most_kept: int = 1
) -> ExpectationScratch:
    """Buffers for one job.

    Args:
        terms: the job.
        num_rows, num_scenarios: of the transitions.
        most_kept: slots whose tables are kept, where `KEPT_BYTES` suffice.

    Raises:
        InputError: if they would take too much memory.
    """
    units = int(target_units(terms, terms.workload)) + 1
    by_instance = bool(terms.by_instance)
    check_memory(2 * num_rows + num_scenarios, terms.n_max, units, by_instance=by_instance)
    tables = (num_rows, int(num_states(terms)), units)
    kept = min(max(KEPT_BYTES // (8 * math.prod(tables)), 1), most_kept)
    # Rows of states that cannot be held are never filled.
    return ExpectationScratch(
        value=np.zeros((num_scenarios, *tables[1:])),
        ahead=np.zeros((kept + 1, *tables)),
        table=make_table_scratch(terms, units),
    )


@kernel
def fill_end_with_multipliers(
    terms: JobConstants, prices: Multipliers, low: int, high: int, out: Floats
) -> None:
    """[n][k] what is left at the deadline is worth, less the multipliers' prices."""
    for state in range(num_states(terms)):
        on_demand = on_demand_of(terms, state)
        without_spot = state_of(terms, on_demand, 0) if terms.by_instance else 0
        if state != without_spot:
            out[state, low : high + 1] = out[without_spot, low : high + 1]
            continue
        for k in range(low, high):
            rest = terms.workload - (k - terms.debt) * terms.step
            value = value_at(terms, terms.num_slots + termination_slots(terms, rest, on_demand))
            cost = termination_cost(terms, rest, on_demand)
            out[state, k] = value - (1.0 + prices.cost) * cost - prices.late
        out[state, high] = terms.value


@kernel
def fill_costs_with_multiplier(
    terms: JobConstants, prices: Multipliers, price: float, available: int, costs: Floats
) -> None:
    """[n] costs of a slot with their multiplier."""
    fill_costs(terms, price, available, costs)
    for n in range(len(costs)):
        costs[n] *= 1.0 + prices.cost


@kernel
def mix(
    terms: JobConstants, value: Floats, transition: Floats, low: int, top: int, out: Floats
) -> None:
    """[r][n][k] the expectation of a slot's values, seen from the end of the slot before."""
    for r in range(len(out)):
        for n in range(value.shape[1]):
            if not can_be_held(terms, n):
                continue
            mean = out[r, n, low : top + 1]
            mean[:] = 0.0
            for i in range(transition.shape[1]):
                weight, row = transition[r, i], value[i, n, low : top + 1]
                if weight > 0.0:
                    # Element by element: expressions of whole slices would allocate.
                    for k in range(len(mean)):
                        mean[k] += weight * row[k]


@kernel
def fill_expected(
    terms: JobConstants,
    scratch: ExpectationScratch,
    scenarios: Scenarios,
    prices: Multipliers,
    low: int,
) -> int:
    """Fill `scratch.ahead`.

    Args:
        terms: the job.
        scratch: its buffers.
        scenarios: of the slots t..d-1.
        prices: of the constraints.
        low: the work done, k; only what can be reached from it is filled.

    Returns:
        The target, in steps of the grid.
    """
    high = target_units(terms, terms.workload)
    done = min(low, high)
    low = lowest_column(terms, done)
    num_rows, num_scenarios = scenarios.transition.shape
    spare, last = len(scratch.ahead) - 1, len(scenarios.price) - 1
    # The end is the same in all scenarios.
    end = scratch.ahead[min(last, spare)]
    fill_end_with_multipliers(terms, prices, low, high, end[0])
    for r in range(1, num_rows):
        end[r, :, low : high + 1] = end[0, :, low : high + 1]
    fastest = terms.units[UNCHANGED, terms.n_max]
    for h in range(last, 0, -1):
        top = min(done + h * fastest, high)
        after, before = scratch.ahead[min(h, spare)], scratch.ahead[min(h - 1, spare)]
        for i in range(num_scenarios):
            price, available = scenarios.price[h, i], scenarios.available[h, i]
            fill_costs_with_multiplier(terms, prices, price, available, scratch.table.costs)
            fill_slot(terms, scratch.table, after[i], low, top, high, scratch.value[i])
        rows = num_rows if h == 1 else num_scenarios
        mix(terms, scratch.value, scenarios.transition, low, top, before[:rows])
    return high


@kernel
def choose(
    terms: JobConstants,
    scratch: ExpectationScratch,
    prices: Multipliers,
    ahead: Floats,
    price: float,
    available: int,
    k: int,
    lowest: int,
    last: int,
) -> tuple[int, float]:
    """Return the best state for a slot that is seen, and the expected value with the multipliers.

    Args:
        terms, scratch, prices: as `fill_expected` had them.
        ahead: [n, k] A of this slot, in its row.
        price, available: of this slot.
        k: the work done.
        lowest: the lowest column that is filled.
        last: state of the slot before.
    """
    high = target_units(terms, terms.workload)
    costs = scratch.table.costs
    fill_costs_with_multiplier(terms, prices, price, available, costs)
    k = min(max(k, lowest), high)
    return best_state(terms, costs, price, available, ahead, k, lowest, high, last)
