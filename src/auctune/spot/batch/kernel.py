"""The kernel that plays policies encoded as rows of numbers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.account import (
    JobConstants,
    effective_progress,
    remaining_work,
    run_slot,
    state_of,
)
from auctune.spot.deadline import is_ahead, line_code
from auctune.spot.policies import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    SpotFirst,
    UniformProgress,
)
from auctune.spot.policies.ahanp import react
from auctune.spot.policies.ahap import combine, plan_cheap_spot
from auctune.spot.policies.baselines import (
    all_spot,
    least_steady_count,
    switch_code,
    uniform,
)
from auctune.spot.policy import Policy
from auctune.spot.value import overtime_slots, value_at
from auctune.spot.window.program import WindowScratch, fill_window, follow, window_end
from auctune.spot.window.table import units_done

AHAP, AHANP, ON_DEMAND_ONLY, SPOT_FIRST, UNIFORM_PROGRESS = range(5)


class PolicyTable(NamedTuple):
    """Policies of the kinds that have kernels.

    Attributes:
        kind: [m].
        window, commitment, plan_always: [m] of AHAP; 0 for others.
        line: [m] of AHAP and AHANP, `SLOT_END` or `SLOT_START`; 0 for others.
        numbers: [m, 4] AHAP: sigma; AHANP: sigma, drop, shrink, growth; MSU: switch; UP:
            hysteresis, top_up, safety_net.
    """

    kind: Ints
    window: Ints
    commitment: Ints
    plan_always: Ints
    line: Ints
    numbers: Floats


def has_kernel(policy: Policy) -> bool:
    """Return whether a kernel plays this policy."""
    return isinstance(policy, Ahap | Ahanp | OnDemandOnly | SpotFirst | UniformProgress)


def encode(policies: Sequence[Policy]) -> PolicyTable:
    """Return the rows of policies, all of which must have a kernel."""
    rows = [_row(policy) for policy in policies]
    whole = np.array([row[0] for row in rows], dtype=np.int64).reshape(len(rows), 5)
    numbers = np.array([row[1] for row in rows], dtype=np.float64).reshape(len(rows), 4)
    kind, window, commitment, plan_always, line = map(np.ascontiguousarray, whole.T)
    return PolicyTable(kind, window, commitment, plan_always, line, numbers)


def within(table: PolicyTable, num_slots: int) -> PolicyTable:
    """The table that does the same in a job of so many slots, with no wider windows than that."""
    return table._replace(
        window=np.minimum(table.window, num_slots),
        commitment=np.minimum(table.commitment, num_slots),
    )


def _row(policy: Policy) -> tuple[tuple[int, ...], tuple[float, ...]]:
    none = (0.0, 0.0, 0.0, 0.0)
    match policy:
        case Ahap(window, commitment, sigma, plan_always, line):
            row = (AHAP, window, commitment, int(plan_always), line_code(line))
            return row, (sigma, 0.0, 0.0, 0.0)
        case Ahanp(sigma, drop, shrink, growth, line):
            return (AHANP, 0, 0, 0, line_code(line)), (sigma, drop, shrink, growth)
        case OnDemandOnly():
            return (ON_DEMAND_ONLY, 0, 0, 0, 0), none
        case SpotFirst():
            return (SPOT_FIRST, 0, 0, 0, 0), (float(switch_code(policy)), 0.0, 0.0, 0.0)
        case UniformProgress(hysteresis, top_up, safety_net):
            return (UNIFORM_PROGRESS, 0, 0, 0, 0), (hysteresis, top_up, safety_net, 0.0)
    raise AssertionError(policy)


# A pool of policies on one job, slot by slot; the same steps as `auctune.spot.play`.
#
# The policies with the same window share its table, filled once a slot down to the least progress
# among those that plan. All that decides, and all that counts money and work, are the very
# functions that single runs use, in the same order: results agree to the last bit.


class MarketView(NamedTuple):
    """A job's market, and what was forecast of it.

    Attributes:
        price, available: [t].
        price_ahead, available_ahead: [t, h] column 0 is slot t itself, as it is seen; column h is
            what slot t + h was thought to be in slot t.
    """

    price: Floats
    available: Ints
    price_ahead: Floats
    available_ahead: Ints


class Pool(NamedTuple):
    """Where each policy stands.

    Attributes:
        progress, slot_cost, finish: [m] finish is below 0 while the work is not done.
        held: [m, t, 2] on-demand and spot GPUs by slot.
        plans: [m, c, h, 2] the last plans of AHAP.
        starting: [m, 2, n] slots that each instance needs until it works, by instance.
        owed: [m] their sum.
    """

    progress: Floats
    slot_cost: Floats
    finish: Floats
    held: Ints
    plans: Ints
    starting: Floats
    owed: Floats


@kernel
def total_before(pool: Pool, m: int, slot: int) -> int:
    """GPUs that policy m held in the slot before."""
    return pool.held[m, slot - 1, 0] + pool.held[m, slot - 1, 1] if slot > 0 else 0


@kernel
def state_before(terms: JobConstants, pool: Pool, m: int, slot: int) -> int:
    """State that policy m held in the slot before."""
    if slot == 0:
        return 0
    return state_of(terms, pool.held[m, slot - 1, 0], pool.held[m, slot - 1, 1])


@kernel
def progress_of(terms: JobConstants, pool: Pool, m: int) -> float:
    """Return the progress that plans of policy m count on."""
    return effective_progress(terms, pool.progress[m], pool.owed[m])


@kernel
def solves_window(
    terms: JobConstants, table: PolicyTable, pool: Pool, m: int, slot: int, window: int
) -> bool:
    """Return whether policy m plans by the window program in this slot, with this window."""
    if table.kind[m] != AHAP or table.window[m] != window or pool.finish[m] >= 0:
        return False
    ahead = is_ahead(terms, progress_of(terms, pool, m), slot, table.line[m])
    return bool(table.plan_always[m] == 1 or not ahead)


@kernel
def plan_windows(
    terms: JobConstants,
    view: MarketView,
    table: PolicyTable,
    pool: Pool,
    scratch: WindowScratch,
    slot: int,
) -> None:
    """Write the plans of all policies that plan by the window program, window by window."""
    prices, available = view.price_ahead[slot], view.available_ahead[slot]
    num_policies = len(table.kind)
    widest = np.max(table.window)
    for window in range(1, widest + 1):
        least = np.inf
        for m in range(num_policies):
            if solves_window(terms, table, pool, m, slot, window):
                least = min(least, progress_of(terms, pool, m))
        if least == np.inf:
            continue
        end = window_end(terms, slot, window)
        low = units_done(terms, least)
        high = fill_window(terms, scratch, prices, available, slot, end, low)
        for m in range(num_policies):
            if solves_window(terms, table, pool, m, slot, window):
                done = units_done(terms, progress_of(terms, pool, m))
                last = state_before(terms, pool, m, slot)
                plan = pool.plans[m, slot % table.commitment[m]]
                follow(terms, scratch, prices, available, end - slot, done, high, last, plan)


@kernel
def decide(
    terms: JobConstants,
    view: MarketView,
    table: PolicyTable,
    pool: Pool,
    m: int,
    slot: int,
) -> tuple[int, int]:
    """The (on-demand, spot) GPUs of policy m in a slot; AHAP's window plans are made before."""
    progress, numbers, kind = progress_of(terms, pool, m), table.numbers[m], table.kind[m]
    last = state_before(terms, pool, m, slot)
    price, available = view.price[slot], view.available[slot]
    if kind == AHAP:
        ahead = is_ahead(terms, progress, slot, table.line[m])
        commitment = table.commitment[m]
        if ahead and table.plan_always[m] == 0:
            end = window_end(terms, slot, table.window[m])
            plan_cheap_spot(
                terms,
                numbers[0] * terms.on_demand_price,
                view.price_ahead[slot],
                view.available_ahead[slot],
                end - slot,
                pool.plans[m, slot % commitment],
            )
        return combine(terms, pool.plans[m], commitment, slot, ahead, available)
    if kind == AHANP:
        return react(
            terms,
            numbers[0] * terms.on_demand_price,
            numbers[1],
            numbers[2],
            numbers[3],
            table.line[m],
            slot,
            progress,
            total_before(pool, m, slot),
            price,
            available,
            view.available[max(slot - 1, 0)],
        )
    if kind == ON_DEMAND_ONLY:
        return least_steady_count(terms, slot, progress, last), 0
    if kind == SPOT_FIRST:
        return all_spot(terms, int(numbers[0]), slot, progress, last, available)
    last_on_demand = pool.held[m, slot - 1, 0] if slot > 0 else 0
    return uniform(
        terms,
        numbers[0],
        numbers[1] > 0,
        numbers[2] > 0,
        slot,
        progress,
        last,
        last_on_demand,
        available,
    )


@kernel
def take_slot(
    terms: JobConstants, pool: Pool, m: int, slot: int, price: float, on_demand: int, spot: int
) -> None:
    """Pay for a slot and work it off."""
    last = (0, 0)
    if slot > 0:
        last = (pool.held[m, slot - 1, 0], pool.held[m, slot - 1, 1])
    rest = terms.workload - pool.progress[m]
    work, _, finish, pool.owed[m] = run_slot(terms, pool.starting[m], last, (on_demand, spot), rest)
    pool.held[m, slot, 0], pool.held[m, slot, 1] = on_demand, spot
    if on_demand + spot > 0:
        pool.progress[m] += work
        pool.slot_cost[m] += on_demand * terms.on_demand_price + spot * price
        if remaining_work(terms, pool.progress[m]) == 0.0:
            pool.finish[m] = slot + finish


@kernel
def play_pool(
    terms: JobConstants,
    view: MarketView,
    table: PolicyTable,
    scratch: WindowScratch,
    pool: Pool,
    value: Floats,
    cost: Floats,
) -> None:
    """Play all policies on one job.

    Args:
        terms, view, table: the job, its market, the policies.
        scratch: of the widest window of AHAP.
        pool: progress, cost and held GPUs 0, finish below 0; written.
        value, cost: [m] V(T) and all that was paid; written.
    """
    for slot in range(terms.num_slots):
        plan_windows(terms, view, table, pool, scratch, slot)
        for m in range(len(table.kind)):
            if pool.finish[m] < 0:
                on_demand, spot = decide(terms, view, table, pool, m, slot)
                take_slot(terms, pool, m, slot, view.price[slot], on_demand, spot)
    for m in range(len(table.kind)):
        on_demand = pool.held[m, terms.num_slots - 1, 0]
        slots = overtime_slots(terms, pool.starting[m], pool.progress[m], on_demand)
        if pool.finish[m] < 0:
            pool.finish[m] = terms.num_slots + slots
        value[m] = value_at(terms, pool.finish[m])
        cost[m] = pool.slot_cost[m] + terms.on_demand_price * terms.n_max * slots
