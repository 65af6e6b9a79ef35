"""The backward dynamic program of a window, the best state after another, and its memory."""

import math
from typing import NamedTuple

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel
from auctune.spot.account import (
    TOLERANCE,
    JobConstants,
    can_be_held,
    num_states,
    on_demand_of,
    state_of,
    units_of,
)
from auctune.spot.grid import GROWN, KEPT, MOST_BYTES, NUMBER_BYTES, SHRUNK, UNCHANGED
from auctune.spot.value import terminal_value


def check_memory(num_tables: int, n_max: int, units: int, *, by_instance: bool = False) -> None:
    """Refuse tables that are too large.

    Args:
        num_tables: one for each slot of a window, or for each scenario.
        n_max: the most GPUs held; a row for each count, by instance for each pair of them.
        units: columns, steps of work.
        by_instance: whether the account is by instance.

    Raises:
        InputError: naming `job`, and what would fit.
    """
    rows = (n_max + 1) ** (2 if by_instance else 1)
    size = num_tables * rows * units * NUMBER_BYTES
    if size <= MOST_BYTES:
        return
    fewer = MOST_BYTES // (rows * units * NUMBER_BYTES)
    most = MOST_BYTES // (num_tables * units * NUMBER_BYTES)
    counts = (math.isqrt(most) if by_instance else most) - 1
    fits = [f"n_max <= {counts}"] if counts >= 1 else []
    fits += [f"{fewer} tables"] if fewer >= 1 else []
    found = (
        f"takes {num_tables} tables of {rows} states x {units} steps of work, "
        f"{size / 2**30:,.1f} GiB"
    )
    would = f", that is {' or '.join(fits)}" if fits else ""
    expected = f"at most {MOST_BYTES / 2**30:g} GiB{would}; a table is a slot to plan for"
    raise InputError("job", found, expected)


class TableScratch(NamedTuple):
    """Work buffers of one slot of a table.

    Attributes:
        costs: [n] by state.
        best: [k].
        ahead, reach: [n, k] by instance, else empty.
    """

    costs: Floats
    best: Floats
    ahead: Floats
    reach: Floats


def make_table_scratch(terms: JobConstants, units: int) -> TableScratch:
    """Buffers for tables of so many columns."""
    rows = int(num_states(terms))
    wide = (rows, units + terms.debt) if terms.by_instance else (0, 0)
    return TableScratch(np.empty(rows), np.empty(units), np.empty(wide), np.empty(wide))


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
# By instance a state is (slot, k, on-demand and spot GPUs held before), and a slot does
# (1 - s) H(n) + s H(m) with m of the n GPUs held before: m sums the lesser of before and now over
# both kinds. In each of the four cases (either kind grows or not) that is again a maximum over a
# suffix or prefix in each kind, so that a state still costs O(1). With s > 1 a slot's steps can be
# below 0. So column k stands for k - debt steps, and what would lie lower stays at the lowest: no
# true state has less, since starts that come to nothing cost no work that was done.
#
# Tables are [n][k]: neighbours in k lie side by side, and all inner loops run along k.


@kernel
def cheapest_spot(count: int, price: float, available: int, on_demand_price: float) -> int:
    """Spot GPUs among `count`: all there are where spot is cheaper, else 0."""
    return min(count, available) if price < on_demand_price else 0


@kernel
def split_of(terms: JobConstants, state: int, price: float, available: int) -> tuple[int, int]:
    """Return the (on-demand, spot) GPUs of a state."""
    if terms.by_instance:
        side = terms.n_max + 1
        return state // side, state % side
    spot = cheapest_spot(state, price, available, terms.on_demand_price)
    return state - spot, spot


@kernel
def fill_costs(terms: JobConstants, price: float, available: int, costs: Floats) -> None:
    """[n] the least cost of each state in a slot; infinite where it needs more spot GPUs."""
    dear = terms.on_demand_price
    for n in range(num_states(terms)):
        on_demand, spot = split_of(terms, n, price, available)
        costs[n] = spot * price + on_demand * dear if spot <= available else np.inf


@kernel
def target_units(terms: JobConstants, target: float) -> int:
    """Return the column of the table that reaches `target`."""
    return int(np.ceil((target - TOLERANCE * terms.workload) / terms.step)) + terms.debt


@kernel
def units_done(terms: JobConstants, progress: float) -> int:
    """Return the column of the table of what has been done."""
    done = int(np.floor((progress + TOLERANCE * terms.workload) / terms.step))
    return max(done + terms.debt, 0)


@kernel
def lowest_column(terms: JobConstants, done: int) -> int:
    """Return the lowest column that can be reached from one: starts may go on."""
    return max(done - terms.debt, 0)


@kernel
def fill_end(terms: JobConstants, target: float, low: int, high: int, out: Floats) -> None:
    """[n][k] the worth of what is left of `target` at the window's end, for k in low..high."""
    for state in range(num_states(terms)):
        on_demand = on_demand_of(terms, state)
        if state > 0 and (not terms.by_instance or state != state_of(terms, on_demand, 0)):
            # The same as for the state without spot GPUs.
            out[state, low : high + 1] = out[state_of(terms, on_demand, 0), low : high + 1]
            continue
        for k in range(low, high):
            rest = target - (k - terms.debt) * terms.step
            out[state, k] = terminal_value(terms, rest, on_demand)
        out[state, high] = terminal_value(terms, 0.0, on_demand)


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
def fill_by_total(
    terms: JobConstants,
    scratch: TableScratch,
    after: Floats,
    low: int,
    top: int,
    high: int,
    out: Floats,
) -> None:
    """Fill a slot's table by total; see `fill_slot`."""
    units, costs, best = terms.units, scratch.costs, scratch.best
    best[low : top + 1] = after[0, low : top + 1]
    for n in range(terms.n_max, terms.n_min - 1, -1):
        out[n, low : top + 1] = best[low : top + 1]
        then = after[n]
        take_better(then, units[UNCHANGED, n], costs[n], low, top, high, out[n])
        take_better(then, units[GROWN, n], costs[n], low, top, high, best)
    out[0, low : top + 1] = best[low : top + 1]
    best[low : top + 1] = -np.inf
    for n in range(terms.n_min, terms.n_max + 1):
        if n > terms.n_min:
            row, shrunk = out[n, low : top + 1], best[low : top + 1]
            for i in range(len(row)):
                row[i] = shrunk[i] if shrunk[i] > row[i] else row[i]
        take_better(after[n], units[SHRUNK, n], costs[n], low, top, high, best)


@kernel
def fill_ahead(
    after: Floats, units: int, cost: float, low: int, reach: int, high: int, out: Floats
) -> None:
    """out[x] = after[x + units, within low and high] - cost, for x in low..reach."""
    first = min(max(low, low - units), reach + 1)
    split = min(max(first, high - units), reach + 1)
    lowest, full = after[low] - cost, after[high] - cost
    for x in range(low, first):
        out[x] = lowest
    shifted, within = after[first + units : split + units], out[first:split]
    for i in range(len(within)):
        within[i] = shifted[i] - cost
    for x in range(split, reach + 1):
        out[x] = full


@kernel
def raise_to(ahead: Floats, units: int, low: int, top: int, best: Floats) -> None:
    """best[k] = max(best[k], ahead[k + units]) for k in low..top; its last is for all beyond."""
    last = len(ahead) - 1
    split = min(max(low, last - units), top + 1)
    shifted, within = ahead[low + units : split + units], best[low:split]
    for i in range(len(within)):
        within[i] = shifted[i] if shifted[i] > within[i] else within[i]
    for k in range(split, top + 1):
        best[k] = max(best[k], ahead[last])


@kernel
def raise_row(other: Floats, low: int, reach: int, row: Floats) -> None:
    """row[x] = max(row[x], other[x]) for x in low..reach."""
    source, within = other[low : reach + 1], row[low : reach + 1]
    for i in range(len(within)):
        within[i] = source[i] if source[i] > within[i] else within[i]


@kernel
def fill_by_instance(
    terms: JobConstants,
    scratch: TableScratch,
    after: Floats,
    low: int,
    top: int,
    high: int,
    out: Floats,
) -> None:
    """Fill a slot's table by instance; see `fill_slot`.

    (o, s) on-demand and spot GPUs are held before, (p, q) next. With x = k + units[KEPT, m] for the
    m GPUs that are held on, `ahead[p, q][x]` is what comes after (p, q), less its cost. The
    value of (o, s) is the best of four cases, in each of which m depends on fewer numbers:

    |        | q >= s                             | q <= s                             |
    | ------ | ---------------------------------- | ---------------------------------- |
    | p >= o | m = o + s, the same for all (p, q) | m = o + q, the same for all p      |
    |        | 1. max over p and q, then shift    | 2. max over p, shift, max over q   |
    | p <= o | m = p + s, the same for all q      | m = p + q                          |
    |        | 3. max over q, shift, max over p   | 4. shift, then max over p and q    |

    "Shift" is by units[KEPT, m]. Maxima over p >= o or q >= s are suffix maxima, those over p <= o
    or q <= s prefix maxima, so that each state costs O(1) in each case. Where p = o or q = s cases
    agree.
    """
    most, side, units, best = terms.n_max, terms.n_max + 1, terms.units, scratch.best
    last = min(top + units[KEPT, most], high + terms.debt)
    ahead, reach = scratch.ahead[:, : last + 1], scratch.reach
    for o in range(side):
        for s in range(side - o):
            n, j = o + s, o * side + s
            end = min(top + units[KEPT, n], last)
            if (0 < n < terms.n_min) or scratch.costs[j] == np.inf:
                ahead[j, low : end + 1] = -np.inf
            else:
                fill_ahead(after[j], units[GROWN, n], scratch.costs[j], low, end, high, ahead[j])
            if end < last:
                # Beyond what this state can be asked for.
                ahead[j, end + 1 :] = -np.inf
    # 1. Both kinds at least as many as before.
    for o in range(most, -1, -1):
        for s in range(most - o, -1, -1):
            n, j = o + s, o * side + s
            row = reach[j, : last + 1]
            row[low:] = ahead[j, low:]
            if n < most:
                raise_row(reach[j + side], low, last, row)
                raise_row(reach[j + 1], low, last, row)
            out[j, low : top + 1] = -np.inf
            raise_to(row, units[KEPT, n], low, top, out[j])
    # 3. At most as many on-demand, at least as many spot GPUs; then 2., the other way round.
    for kind in range(2):
        across, along = (1, side) if kind == 0 else (side, 1)
        for a in range(side):
            for b in range(most - a, -1, -1):
                j = a * along + b * across
                row = reach[j, : last + 1]
                row[low:] = ahead[j, low:]
                if a + b < most:
                    raise_row(reach[j + across], low, last, row)
        for b in range(side):
            best[low : top + 1] = -np.inf
            for a in range(side - b):
                j = a * along + b * across
                raise_to(reach[j, : last + 1], units[KEPT, a + b], low, top, best)
                raise_row(best, low, top, out[j])
    # 4. At most as many of both.
    for o in range(side):
        for s in range(side - o):
            j = o * side + s
            row = reach[j, : last + 1]
            row[low : top + 1] = -np.inf
            raise_to(ahead[j], units[KEPT, o + s], low, top, row)
            if o > 0:
                raise_row(reach[j - side], low, top, row)
            if s > 0:
                raise_row(reach[j - 1], low, top, row)
            raise_row(row, low, top, out[j])


@kernel
def fill_slot(
    terms: JobConstants,
    scratch: TableScratch,
    after: Floats,
    low: int,
    top: int,
    high: int,
    out: Floats,
) -> None:
    """[n][k] the value of beginning a slot with k done after state n, for k in low..top.

    Args:
        terms: the job.
        scratch: its buffers, with the costs of this slot.
        after: [n][k] values of the next slot.
        low, top, high: the least and the highest k asked for, and the target.
        out: [n][k] rows of states that can be held are filled.
    """
    if terms.by_instance:
        fill_by_instance(terms, scratch, after, low, top, high, out)
    else:
        fill_by_total(terms, scratch, after, low, top, high, out)


# The best state of a slot, given the values of the next slot.
#
# Ties, within a millionth of a millionth of the job's value: the plan with the most spot GPUs now,
# and of those the one with the fewest on-demand GPUs. Spot that is there may be gone later; on-
# demand can wait.

TIE = 1e-12


@kernel
def value_of_state(
    terms: JobConstants,
    costs: Floats,
    after: Floats,
    k: int,
    lowest: int,
    high: int,
    last: int,
    state: int,
) -> float:
    """Return the value of a state in a slot that begins with k done after the state `last`."""
    if state == 0:
        return float(after[0, k])
    then = min(max(k + units_of(terms, state, last), lowest), high)
    return float(after[state, then] - costs[state])


@kernel
def best_state(
    terms: JobConstants,
    costs: Floats,
    price: float,
    available: int,
    after: Floats,
    k: int,
    lowest: int,
    high: int,
    last: int,
) -> tuple[int, float]:
    """Return the best state for a slot by the rule of ties, and its value.

    Args:
        terms: the job.
        costs: [n] of this slot.
        price, available: of this slot.
        after: [n][k] values of the next slot.
        k, lowest, high: the column at hand, and the bounds on the next one.
        last: state of the slot before.
    """
    most = -np.inf
    for state in range(num_states(terms)):
        if can_be_held(terms, state):
            most = max(most, value_of_state(terms, costs, after, k, lowest, high, last, state))
    least = most - TIE * (terms.value + abs(most))
    chosen, chosen_spot = -1, -1
    for state in range(num_states(terms)):
        if not can_be_held(terms, state):
            continue
        spot = split_of(terms, state, price, available)[1]
        # Among equally many spot GPUs the first has the fewest on-demand.
        if (
            spot > chosen_spot
            and value_of_state(terms, costs, after, k, lowest, high, last, state) >= least
        ):
            chosen, chosen_spot = state, spot
    return chosen, most
