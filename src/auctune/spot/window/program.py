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
from auctune.spot.terms import JobConstants, expected_progress
from auctune.spot.window.table import (
    best_count,
    cheapest_spot,
    check_memory,
    fill_costs,
    fill_end,
    fill_slot,
    target_units,
)


class WindowScratch(NamedTuple):
    """Work buffers of a window program.

    Attributes:
        values: [h, n, k] value of beginning slot t + 1 + h with k done after n GPUs; the row n = 0
            of the window's end stands for all n.
        costs: [n] of the slot at hand.
        best: [k].
    """

    values: Floats
    costs: Floats
    best: Floats


def make_scratch(terms: JobConstants, window: int) -> WindowScratch:
    """Buffers for windows up to `window` slots of one job.

    Raises:
        InputError: if they would take too much memory.
    """
    units = int(target_units(terms, terms.workload)) + 1
    check_memory(max(window, 1), terms.n_max, units)
    return WindowScratch(
        values=np.empty((max(window, 1), terms.n_max + 1, units)),
        costs=np.empty(terms.n_max + 1),
        best=np.empty(units),
    )


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
    low = min(low, high)
    last = end - slot - 1
    fill_end(terms, target, low, high, scratch.values[last, 0])
    for h in range(last - 1, -1, -1):
        fill_costs(terms, prices[h + 1], available[h + 1], scratch.costs)
        stride = 0 if h + 1 == last else 1
        fill_slot(
            terms,
            scratch.costs,
            scratch.values[h + 1],
            stride,
            low,
            high,
            high,
            scratch.best,
            scratch.values[h],
        )
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
    """Write the best plan from k done after `last` GPUs; its value.

    Args:
        terms, scratch, prices, available: as `fill_window` had them.
        num_slots: of the window, e - t.
        k, high: work done and the target, in steps.
        last: GPUs held before.
        plan: [h, 2] on-demand and spot GPUs; written.
    """
    k = min(k, high)
    value = 0.0
    for h in range(num_slots):
        fill_costs(terms, prices[h], available[h], scratch.costs)
        stride = 0 if h + 1 == num_slots else 1
        count, worth = best_count(
            terms, scratch.costs, prices[h], available[h], scratch.values[h], stride, k, high, last
        )
        if h == 0:
            value = worth
        spot = cheapest_spot(count, prices[h], available[h], terms.on_demand_price)
        plan[h, 0], plan[h, 1] = count - spot, spot
        if count > 0:
            row = 0 if count > last else (1 if count < last else 2)
            k = min(k + terms.units[row, count], high)
        last = count
    return value
