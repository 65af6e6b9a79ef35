"""Planning over a window (eq. 10): fill the tables backwards, then follow the best counts.

The window of w slots from t ends at e = min(t + w, d). Its target is Z_exp(e) = L e / d, the line
at the end of the window's last slot e - 1, whatever line the policy compares its progress with;
what is left of it at e counts as if it ran on N_max on-demand GPUs after the deadline:
V(d + delta) - p_o N_max delta with delta = (Z_exp(e) - Z)^+ / (mu_1 H(N_max)). A window up to d is
the whole problem (9).
"""

from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.account import JobConstants, num_states, units_of
from auctune.spot.deadline import expected_progress
from auctune.spot.window.table import (
    TableScratch,
    best_state,
    check_memory,
    fill_costs,
    fill_end,
    fill_slot,
    lowest_column,
    make_table_scratch,
    split_of,
    target_units,
)


class WindowScratch(NamedTuple):
    """Work buffers of a window program.

    Attributes:
        values: [h, n, k] value of beginning slot t + 1 + h with k done after state n.
        table: of the slot at hand.
    """

    values: Floats
    table: TableScratch


def make_scratch(terms: JobConstants, window: int) -> WindowScratch:
    """Buffers for windows up to `window` slots of one job.

    Raises:
        InputError: if they would take too much memory.
    """
    units = int(target_units(terms, terms.workload)) + 1
    check_memory(max(window, 1), terms.n_max, units, by_instance=bool(terms.by_instance))
    # Rows of states that cannot be held are never filled.
    values = np.zeros((max(window, 1), num_states(terms), units))
    return WindowScratch(values, make_table_scratch(terms, units))


@kernel
def window_end(terms: JobConstants, slot: int, window: int) -> int:
    """e = min(t + w, d)."""
    return min(slot + window, terms.num_slots)


@kernel
def fill_window(
    terms: JobConstants,
    scratch: WindowScratch,
    prices: Floats,
    available: Ints,
    slot: int,
    end: int,
    low: int,
) -> int:
    """Fill the tables of slots t + 1..e.

    Args:
        terms: the job.
        scratch: its buffers.
        prices, available: [h] of the slots t, t + 1, ..., e - 1.
        slot, end: t and e.
        low: the least k asked for.

    Returns:
        The target, in steps of the grid; k stops there.
    """
    target = expected_progress(terms, end)
    high = target_units(terms, target)
    low = lowest_column(terms, min(low, high))
    last = end - slot - 1
    fill_end(terms, target, low, high, scratch.values[last])
    for h in range(last - 1, -1, -1):
        fill_costs(terms, prices[h + 1], available[h + 1], scratch.table.costs)
        values = scratch.values
        fill_slot(terms, scratch.table, values[h + 1], low, high, high, values[h])
    return high


@kernel
def follow(
    terms: JobConstants,
    scratch: WindowScratch,
    prices: Floats,
    available: Ints,
    num_slots: int,
    k: int,
    high: int,
    last: int,
    plan: Ints,
) -> float:
    """Write the best plan from k done after the state `last`; its value.

    Args:
        terms, scratch, prices, available: as `fill_window` had them.
        num_slots: of the window, e - t.
        k, high: work done and the target, in steps.
        last: state of the slot before.
        plan: [h, 2] on-demand and spot GPUs; written.
    """
    k = min(k, high)
    lowest, value = lowest_column(terms, k), 0.0
    for h in range(num_slots):
        costs = scratch.table.costs
        fill_costs(terms, prices[h], available[h], costs)
        state, worth = best_state(
            terms, costs, prices[h], available[h], scratch.values[h], k, lowest, high, last
        )
        if h == 0:
            value = worth
        plan[h, 0], plan[h, 1] = split_of(terms, state, prices[h], available[h])
        if state > 0:
            k = min(max(k + units_of(terms, state, last), lowest), high)
        last = state
    return value
