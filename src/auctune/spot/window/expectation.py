"""The window program where the slots to come are uncertain: scenarios and expectations."""

from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.forecasts.forecast import Forecast, ForecastTable
from auctune.spot.terms import (
    UNCHANGED,
    JobConstants,
    can_be_held,
    num_states,
    on_demand_of,
    state_of,
    termination_cost,
    termination_slots,
    value_at,
)
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


class ScenarioTree(NamedTuple):
    """What the slots after one may bring, as likely in each scenario.

    Attributes:
        price: [..., h, i] h + 1 slots ahead, in scenario i.
        available: [..., h, i].
    """

    price: Floats
    available: Ints


def make_scenario_tree(forecast: Forecast | ForecastTable) -> ScenarioTree:
    """Return the scenarios of one forecast, or of all in a table.

    A forecast without quantiles is one scenario.
    """
    if len(forecast.levels) == 0:
        return ScenarioTree(forecast.price[..., None], forecast.available[..., None])
    price = _at_levels(forecast.levels, forecast.price_quantiles)[..., PAIRED]
    counts = _at_levels(forecast.levels, forecast.available_quantiles.astype(np.float64))
    return ScenarioTree(
        np.ascontiguousarray(price), np.asarray(np.floor(counts + 0.5), dtype=np.int64)
    )


def _at_levels(levels: Floats, quantiles: Floats) -> Floats:
    """[..., i] between the quantiles at hand, and those at the ends beyond them.

    By elements alone: one forecast and a table of them give the same bits.
    """
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
# decided. Scenarios stick: the next slot has the scenario of this one with probability rho
# (`persistence`), and else one drawn anew by the weights, as the first one after the present is.
# So, with A_h[i] the value of what comes after slot h in scenario i,
#
#     value_h[i][last][k] = the window program's step with the costs of scenario i and A_h[i]
#     A_{h-1}[i] = rho value_h[i] + (1 - rho) * (weighted mean of value_h)
#
# and the slot that is seen is decided by the weighted mean of the next one. Two multipliers turn
# constraints into prices: `late` is paid when work is left at the deadline, `dear` on top of each
# unit of cost.


class Scenarios(NamedTuple):
    """What slots t, t + 1, ..., d - 1 may bring.

    Attributes:
        price: [h, i] of scenario i.
        available: [h, i].
        weight: [i] probability of a scenario; row 0, the slot that is seen, has the same in all.
        persistence: rho.
    """

    price: Floats
    available: Ints
    weight: Floats
    persistence: float


class Multipliers(NamedTuple):
    """Prices of the two constraints.

    Attributes:
        late: for missing the deadline.
        dear: for each unit of cost, on top of it.
    """

    late: float
    cost: float


class ExpectationScratch(NamedTuple):
    """Work buffers.

    Attributes:
        value: [i, n, k] of beginning a slot with k done after state n, in scenario i.
        ahead: [i, n, k] of what comes after a slot with scenario i, seen from its end.
        mean: [n, k] the mean of `value` by weight.
        table: of the slot at hand.
    """

    value: Floats
    ahead: Floats
    mean: Floats
    table: TableScratch


def make_expectation_scratch(terms: JobConstants, num_scenarios: int) -> ExpectationScratch:
    """Buffers for one job.

    Raises:
        InputError: if they would take too much memory.
    """
    units = int(target_units(terms, terms.workload)) + 1
    by_instance = bool(terms.by_instance)
    check_memory(2 * num_scenarios + 1, terms.n_max, units, by_instance=by_instance)
    shape = (num_scenarios, int(num_states(terms)), units)
    # Rows of states that cannot be held are never filled.
    return ExpectationScratch(
        value=np.zeros(shape),
        ahead=np.zeros(shape),
        mean=np.zeros(shape[1:]),
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
    terms: JobConstants, scratch: ExpectationScratch, scenarios: Scenarios, low: int, top: int
) -> None:
    """Take a slot's values to the slot before: `ahead` from `value`."""
    value, ahead, rho = scratch.value, scratch.ahead, scenarios.persistence
    for n in range(value.shape[1]):
        if not can_be_held(terms, n):
            continue
        mean = scratch.mean[n, low : top + 1]
        mean[:] = 0.0
        for i in range(len(scenarios.weight)):
            weight, row = scenarios.weight[i], value[i, n, low : top + 1]
            # Element by element: expressions of whole slices would allocate.
            for k in range(len(mean)):
                mean[k] += weight * row[k]
        for i in range(len(scenarios.weight)):
            row, seen = value[i, n, low : top + 1], ahead[i, n, low : top + 1]
            for k in range(len(mean)):
                seen[k] = rho * row[k] + (1.0 - rho) * mean[k]


@kernel
def fill_expected(
    terms: JobConstants,
    scratch: ExpectationScratch,
    scenarios: Scenarios,
    prices: Multipliers,
    low: int,
) -> int:
    """Fill `scratch.mean` for the slot after the one that is seen.

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
    num_scenarios = len(scenarios.weight)
    fill_end_with_multipliers(terms, prices, low, high, scratch.mean)
    for i in range(num_scenarios):
        scratch.ahead[i, :, low : high + 1] = scratch.mean[:, low : high + 1]
    fastest = terms.units[UNCHANGED, terms.n_max]
    for h in range(len(scenarios.price) - 1, 0, -1):
        top = min(done + h * fastest, high)
        for i in range(num_scenarios):
            price, available = scenarios.price[h, i], scenarios.available[h, i]
            fill_costs_with_multiplier(terms, prices, price, available, scratch.table.costs)
            fill_slot(terms, scratch.table, scratch.ahead[i], low, top, high, scratch.value[i])
        mix(terms, scratch, scenarios, low, top)
    return high


@kernel
def choose_now(
    terms: JobConstants,
    scratch: ExpectationScratch,
    scenarios: Scenarios,
    prices: Multipliers,
    k: int,
    high: int,
    last: int,
) -> tuple[int, float]:
    """The best state for the slot that is seen, and the expected value with the multipliers."""
    price, available = scenarios.price[0, 0], scenarios.available[0, 0]
    costs = scratch.table.costs
    fill_costs_with_multiplier(terms, prices, price, available, costs)
    k = min(k, high)
    lowest = lowest_column(terms, k)
    return best_state(terms, costs, price, available, scratch.mean, k, lowest, high, last)
