"""The backward dynamic program of a window, its best count in one state, and its memory."""

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel
from auctune.spot.terms import (
    GROWN,
    SHRUNK,
    TOLERANCE,
    UNCHANGED,
    JobConstants,
    change,
    terminal_value,
)

# Of all tables of one program; on each processor there may be one.
MOST_BYTES = 2 * 2**30
_NUMBER = 8


def check_memory(num_tables: int, n_max: int, units: int) -> None:
    """Refuse tables that are too large.

    Args:
        num_tables: one for each slot of a window, or for each scenario.
        n_max: the most GPUs held; a row for each count.
        units: columns, steps of work.

    Raises:
        InputError: naming `job`, and what would fit.
    """
    size = num_tables * (n_max + 1) * units * _NUMBER
    if size <= MOST_BYTES:
        return
    fewer = MOST_BYTES // ((n_max + 1) * units * _NUMBER)
    counts = MOST_BYTES // (num_tables * units * _NUMBER) - 1
    fits = [f"n_max <= {counts}"] if counts >= 1 else []
    fits += [f"{fewer} tables"] if fewer >= 1 else []
    found = (
        f"takes {num_tables} tables of {n_max + 1} counts x {units} steps of work, "
        f"{size / 2**30:,.1f} GiB"
    )
    would = f", that is {' or '.join(fits)}" if fits else ""
    expected = f"at most {MOST_BYTES / 2**30:g} GiB{would}; a table is a slot to plan for"
    raise InputError("job", found, expected)


# The value of being somewhere in the window: a backward dynamic program, O(N_max) a state.
#
# A state is (slot, work k on the grid, GPUs held before). Holding n GPUs next costs the same
# whatever was held before, but yields work by the kind of change (eq. 2). So with next the value
# of the slot after,
#
#     grown(n)     = next[n][k + mu_1 H(n)] - cost(n)
#     shrunk(n)    = next[n][k + mu_2 H(n)] - cost(n)
#     unchanged(n) = next[n][k + H(n)]      - cost(n)
#     value[last][k] = max(next[0][k], max of grown(n) over n > last, unchanged(last),
#                          max of shrunk(n) over 0 < n < last)
#
# and the two inner maxima over n are a suffix and a prefix maximum. Within n GPUs the cheaper kind
# comes first. Work beyond the window's target is worth nothing more, so k stops there. The table
# depends neither on the price threshold nor on the commitment nor, but for the lowest k asked for,
# on the progress: policies with the same window share it.
#
# Tables are [n][k]: neighbours in k lie side by side, and all inner loops run along k.


@kernel
def cheapest_spot(count: int, price: float, available: int, on_demand_price: float) -> int:
    """Spot GPUs among `count`: all there are where spot is cheaper, else 0."""
    return min(count, available) if price < on_demand_price else 0


@kernel
def fill_costs(terms: JobConstants, price: float, available: int, costs: Floats) -> None:
    """[n] the least cost of holding n GPUs in a slot."""
    dear = terms.on_demand_price
    for n in range(terms.n_max + 1):
        spot = cheapest_spot(n, price, available, dear)
        costs[n] = spot * price + (n - spot) * dear


@kernel
def target_units(terms: JobConstants, target: float) -> int:
    """Return the steps of the grid that reach `target`."""
    return int(np.ceil((target - TOLERANCE * terms.workload) / terms.step))


@kernel
def units_done(terms: JobConstants, progress: float) -> int:
    """Return the whole steps of the grid that have been done."""
    return int(np.floor((progress + TOLERANCE * terms.workload) / terms.step))


@kernel
def fill_end(terms: JobConstants, target: float, low: int, high: int, out: Floats) -> None:
    """[k] the worth of what is left of `target` at the window's end, for k in low..high."""
    for k in range(low, high):
        out[k] = terminal_value(terms, target - k * terms.step)
    out[high] = terminal_value(terms, 0.0)


@kernel
def take_better(
    after: Floats, units: int, cost: float, low: int, top: int, high: int, best: Floats
) -> None:
    """best[k] = max(best[k], after[min(k + units, high)] - cost), for k in low..top."""
    split = min(max(low, high - units), top + 1)
    # Slices indexed from 0: the compiler then knows that no index is below 0, and vectorizes.
    shifted, within = after[low + units : split + units], best[low:split]
    for i in range(len(within)):
        worth = shifted[i] - cost
        within[i] = worth if worth > within[i] else within[i]
    full, beyond = after[high] - cost, best[split : top + 1]
    for i in range(len(beyond)):
        beyond[i] = full if full > beyond[i] else beyond[i]


@kernel
def fill_slot(
    terms: JobConstants,
    costs: Floats,
    after: Floats,
    stride: int,
    low: int,
    top: int,
    high: int,
    best: Floats,
    out: Floats,
) -> None:
    """[n][k] the value of beginning a slot with k done after holding n, for k in low..top.

    Args:
        terms: the job.
        costs: [n] of this slot.
        after: [n][k] values of the next slot.
        stride: 1; or 0 where `after` has one row for all n, at the window's end.
        low, top, high: the least and the highest k asked for, and the target.
        best: [k] scratch.
        out: [n][k] rows 0 and N_min..N_max are filled.
    """
    units = terms.units
    best[low : top + 1] = after[0, low : top + 1]
    for n in range(terms.n_max, terms.n_min - 1, -1):
        out[n, low : top + 1] = best[low : top + 1]
        then = after[n * stride]
        take_better(then, units[UNCHANGED, n], costs[n], low, top, high, out[n])
        take_better(then, units[GROWN, n], costs[n], low, top, high, best)
    out[0, low : top + 1] = best[low : top + 1]
    best[low : top + 1] = -np.inf
    for n in range(terms.n_min, terms.n_max + 1):
        if n > terms.n_min:
            row, shrunk = out[n, low : top + 1], best[low : top + 1]
            for i in range(len(row)):
                row[i] = shrunk[i] if shrunk[i] > row[i] else row[i]
        take_better(after[n * stride], units[SHRUNK, n], costs[n], low, top, high, best)


# The best count from one state, given the values of the next slot.
#
# Ties, within a millionth of a millionth of the job's value: the plan with the most spot GPUs now,
# and of those the one with the fewest on-demand GPUs. Spot that is there may be gone later; on-
# demand can wait.

TIE = 1e-12


@kernel
def value_of_count(
    terms: JobConstants,
    costs: Floats,
    after: Floats,
    stride: int,
    k: int,
    high: int,
    last: int,
    n: int,
) -> float:
    """Return the value of holding n GPUs in a slot that begins with k done after `last` GPUs."""
    if n == 0:
        return float(after[0, k])
    then = min(k + terms.units[change(n, last), n], high)
    return float(after[n * stride, then] - costs[n])


@kernel
def best_count(
    terms: JobConstants,
    costs: Floats,
    price: float,
    available: int,
    after: Floats,
    stride: int,
    k: int,
    high: int,
    last: int,
) -> tuple[int, float]:
    """Return the best count for a slot by the rule of ties, and its value."""
    most = value_of_count(terms, costs, after, stride, k, high, last, 0)
    for n in range(terms.n_min, terms.n_max + 1):
        most = max(most, value_of_count(terms, costs, after, stride, k, high, last, n))
    least = most - TIE * (terms.value + abs(most))
    chosen, chosen_spot = -1, -1
    for i in range(terms.n_min - 1, terms.n_max + 1):
        n = 0 if i < terms.n_min else i
        spot = cheapest_spot(n, price, available, terms.on_demand_price)
        # Among equally many spot GPUs the counts rise, so the first has the fewest on-demand.
        if (
            spot > chosen_spot
            and value_of_count(terms, costs, after, stride, k, high, last, n) >= least
        ):
            chosen, chosen_spot = n, spot
    return chosen, most
