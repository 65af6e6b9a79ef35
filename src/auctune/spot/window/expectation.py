"""The window program where the slots to come are uncertain.

Each slot to come has scenarios of price and count, independent between slots, and is seen before
it is decided. So value[last][k] is the mean over scenarios of the maximum over counts; with one
scenario it is the table of `auctune.spot.window.table`. Two multipliers turn constraints into
prices: `late` is paid when work is left at the deadline, `dear` on top of each unit of cost.
"""

from typing import NamedTuple

from auctune.numerics.jit import kernel
from auctune.spot.arrays import Floats, Ints
from auctune.spot.terms import Terms
from auctune.spot.value import ending_cost, ending_slots, value_at
from auctune.spot.window.choice import best_count
from auctune.spot.window.program import WindowScratch
from auctune.spot.window.table import fill_costs, fill_slot, target_units


class Scenarios(NamedTuple):
    """What slots t, t + 1, ..., d - 1 may bring.

    Attributes:
        price: [h, i] of scenario i.
        available: [h, i].
        weight: [i] probability of a scenario; row 0, the slot that is seen, has only i = 0.
    """

    price: Floats
    available: Ints
    weight: Floats


class Multipliers(NamedTuple):
    """Prices of the two constraints.

    Attributes:
        late: for missing the deadline.
        dear: for each unit of cost, on top of it.
    """

    late: float
    dear: float


@kernel
def fill_late_end(terms: Terms, prices: Multipliers, low: int, high: int, out: Floats) -> None:
    """[k] what is left at the deadline is worth, less the multipliers' prices."""
    for k in range(low, high):
        rest = terms.workload - k * terms.step
        value = value_at(terms, terms.num_slots + ending_slots(terms, rest))
        out[k] = value - (1.0 + prices.dear) * ending_cost(terms, rest) - prices.late
    out[high] = terms.value


@kernel
def fill_priced_costs(
    terms: Terms, prices: Multipliers, price: float, available: int, costs: Floats
) -> None:
    """[n] costs of a slot with their multiplier."""
    fill_costs(terms, price, available, costs)
    for n in range(len(costs)):
        costs[n] *= 1.0 + prices.dear


@kernel
def fill_expected(
    terms: Terms,
    scratch: WindowScratch,
    scenarios: Scenarios,
    prices: Multipliers,
    row: Floats,
    low: int,
) -> int:
    """Fill the tables of the slots after the one that is seen, up to the deadline.

    Args:
        terms: the job.
        scratch: its buffers, for as many slots as there are scenarios.
        scenarios: of the slots t..d-1.
        prices: of the constraints.
        row: [n, k] a buffer.
        low: the least k asked for.

    Returns:
        The target, in steps of the grid.
    """
    high = target_units(terms, terms.workload)
    low = min(low, high)
    last = len(scenarios.price) - 1
    values = scratch.values
    fill_late_end(terms, prices, low, high, values[last, 0])
    for h in range(last - 1, -1, -1):
        stride = 0 if h + 1 == last else 1
        values[h, :, low : high + 1] = 0.0
        for i in range(len(scenarios.weight)):
            fill_priced_costs(
                terms,
                prices,
                scenarios.price[h + 1, i],
                scenarios.available[h + 1, i],
                scratch.costs,
            )
            fill_slot(terms, scratch.costs, values[h + 1], stride, low, high, scratch.best, row)
            for n in range(terms.n_max + 1):
                if n == 0 or n >= terms.n_min:
                    values[h, n, low : high + 1] += scenarios.weight[i] * row[n, low : high + 1]
    return high


@kernel
def choose_now(
    terms: Terms,
    scratch: WindowScratch,
    scenarios: Scenarios,
    prices: Multipliers,
    k: int,
    high: int,
    last: int,
) -> tuple[int, float]:
    """The best count for the slot that is seen, and the expected value with the multipliers."""
    price, available = scenarios.price[0, 0], scenarios.available[0, 0]
    fill_priced_costs(terms, prices, price, available, scratch.costs)
    stride = 0 if len(scenarios.price) == 1 else 1
    return best_count(
        terms,
        scratch.costs,
        price,
        available,
        scratch.values[0],
        stride,
        min(k, high),
        high,
        last,
    )
