"""A job as the kernels read it: the work grid, the effect of one slot, the value of the end."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Literal, NamedTuple, get_args

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.job import InstanceStart, SpotJob, as_fraction

# A grid of work on which every slot's work lies.
#
# Dynamic programs walk over work in steps of q. On the exact grid q is the greatest common divisor
# of all mu * H(n), so that nothing is rounded; decimals are taken at their word (0.9 is 9/10).
# Where that step is too fine, a rounded grid stands in: rounded down for plans, so that no plan
# counts on work that will not come, and up for bounds.


# Beyond so many steps of the workload a dynamic program is slower than rounding is harmful. By
# instance it has N_max + 1 times as many states, and so many fewer steps.
MOST_STEPS = 20_000
ROUNDED_STEPS = 2_000
# A slot of a long job is a small part of its work: too few steps for it would round much away.
STEPS_OF_SLOT = 100
# With fewer a plan would be none: then tables that do not fit are refused.
FEWEST_STEPS = 100

# Bytes of all tables of one program; on each processor there may be one.
MOST_BYTES = 2 * 2**30
NUMBER_BYTES = 8
# Of policies that decide slot by slot, by window or scenario.
PLAN_TABLES = 32

# Rows of work, units and share: how the number of GPUs changed.
GROWN, SHRUNK, UNCHANGED = 0, 1, 2
# By instance: the row of the work that GPUs which were held before do while others start.
KEPT = SHRUNK

Rounding = Literal["none", "down", "up"]


@dataclass(frozen=True, slots=True, eq=False)
class WorkGrid:
    """Work in whole steps.

    Attributes:
        step: q, units of work.
        units: [3, n] steps done in a slot by n GPUs, by the rows of `slot_works`.
        rounding: what was done to work that is no multiple of q.
    """

    step: float
    units: Ints
    rounding: Rounding


def slot_works(job: SpotJob) -> list[list[Fraction]]:
    """Return the exact work of a slot, [3][n]; 0 for counts under N_min.

    By total mu_1 H(n), mu_2 H(n) and H(n). By instance, with s the slots of a start, (1 - s) H(n),
    s H(n) and H(n): a slot with n GPUs of which m were held before does (1 - s) H(n) + s H(m).
    """
    if isinstance(job.overhead, InstanceStart):
        start = job.overhead.exact
        shares = [1 - start, start, Fraction(1)]
    else:
        shares = [as_fraction(job.overhead.mu1), as_fraction(job.overhead.mu2), Fraction(1)]
    whole = [
        job.scaling.throughput(n) if n >= job.n_min else Fraction(0) for n in range(job.n_max + 1)
    ]
    return [[share * work for work in whole] for share in shares]


def steps_in_memory(job: SpotJob, num_tables: int = PLAN_TABLES) -> int:
    """Return the steps of the workload with which the tables of a program are within `MOST_BYTES`.

    By total there is no such limit: tables that do not fit are refused.
    """
    overhead = job.overhead
    if not isinstance(overhead, InstanceStart):
        return sys.maxsize
    # There are two more of the slot at hand.
    columns = MOST_BYTES // (NUMBER_BYTES * (num_tables + 2) * (job.n_max + 1) ** 2)
    # Starts that go on need columns for less than no work: see `debt`.
    debt = max(overhead.exact - 1, Fraction(0)) * job.scaling.throughput(job.n_max)
    steps = math.floor((columns - 3) / (1 + debt / as_fraction(job.workload)))
    return max(steps, FEWEST_STEPS)


def _steps_when_rounded(job: SpotJob, num_steps: int = ROUNDED_STEPS) -> int:
    slots = as_fraction(job.workload) / job.scaling.throughput(job.n_max)
    return max(num_steps, math.ceil(STEPS_OF_SLOT * slots))


def exact_grid(job: SpotJob, most_steps: int | None = None) -> WorkGrid | None:
    """Return the coarsest grid that holds all works of a slot.

    Args:
        job: with the workload and H.
        most_steps: by default as many as plans may have.

    Returns:
        None where the workload is more than `most_steps` steps of it.
    """
    if most_steps is None:
        most_steps = MOST_STEPS
        if isinstance(job.overhead, InstanceStart):
            most_steps = max(MOST_STEPS // (job.n_max + 1), _steps_when_rounded(job))
            most_steps = min(most_steps, steps_in_memory(job))
    works = slot_works(job)
    step = reduce(_common_divisor, (abs(work) for row in works for work in row if work))
    if as_fraction(job.workload) / step > most_steps:
        return None
    return WorkGrid(float(step), _units(works, step, math.floor), "none")


def rounded_grid(
    job: SpotJob,
    rounding: Literal["down", "up"],
    num_steps: int = ROUNDED_STEPS,
    num_tables: int = PLAN_TABLES,
) -> WorkGrid:
    """Return a grid on which the works of a slot are rounded.

    Args:
        job: with the workload and H.
        rounding: of works.
        num_steps: of the workload; more for a long job, fewer where tables would not fit.
        num_tables: of the program.
    """
    works = slot_works(job)
    num_steps = min(_steps_when_rounded(job, num_steps), steps_in_memory(job, num_tables))
    step = as_fraction(job.workload) / num_steps
    rounded, worst = (math.floor, min) if rounding == "down" else (math.ceil, max)
    units = _units(works, step, rounded)
    if isinstance(job.overhead, InstanceStart):
        # The sum of two rounded works is rounded once.
        for n in range(job.n_max + 1):
            units[GROWN, n] = worst(
                rounded((works[GROWN][n] + works[KEPT][m]) / step) - units[KEPT, m]
                for m in range(n + 1)
            )
    return WorkGrid(float(step), units, rounding)


def plan_grid(job: SpotJob) -> WorkGrid:
    """Return the grid of plans: exact where that is in reach, else rounded down."""
    return exact_grid(job) or rounded_grid(job, "down")


def _common_divisor(x: Fraction, y: Fraction) -> Fraction:
    return Fraction(
        math.gcd(x.numerator * y.denominator, y.numerator * x.denominator),
        x.denominator * y.denominator,
    )


def _units(works: Sequence[Sequence[Fraction]], step: Fraction, rounded: object) -> Ints:
    assert callable(rounded)
    return np.array([[rounded(work / step) for work in row] for row in works], dtype=np.int64)


# Work that differs from a target by less than this share of the workload meets it: sums of tenths
# are not exact in binary.
TOLERANCE = 1e-9

# Which point of the line of even progress a policy compares the progress at a slot's start with:
# the one at the slot's end (the paper's, which counts slots from 1), or the one at its start.
ProgressLine = Literal["slot_end", "slot_start"]
SLOT_START, SLOT_END = 0, 1


class JobConstants(NamedTuple):
    """One job in one market's units.

    Attributes:
        workload, num_slots, hard_deadline, value: L, d, g d, v.
        n_min, n_max: bounds on the count.
        on_demand_price: p_o.
        share: [3] of a slot that is left for work, by the rows of `slot_works`.
        work: [3, n] by the same rows.
        step: of the work grid.
        units: [3, n] steps of the grid, by the same rows.
        by_instance: 1 for the account by instance, 0 for that by total.
        start: slots that an instance takes to start; 0 by total.
        lead: the most work that one more GPU adds to a slot.
        debt: steps of the grid by which starts can put the work that is counted below that done.
    """

    workload: float
    num_slots: int
    hard_deadline: float
    value: float
    n_min: int
    n_max: int
    on_demand_price: float
    share: Floats
    work: Floats
    step: float
    units: Ints
    by_instance: int
    start: float
    lead: float
    debt: int


def job_constants(
    job: SpotJob, on_demand_price: float, grid: WorkGrid | None = None
) -> JobConstants:
    """Return the terms of a job; `grid` is that of plans unless another is given."""
    grid = grid or plan_grid(job)
    overhead = job.overhead
    if isinstance(overhead, InstanceStart):
        start, share = float(overhead.exact), [float(1 - overhead.exact), 1.0, 1.0]
    else:
        start, share = 0.0, [overhead.mu1, overhead.mu2, 1.0]
    work = np.array([[float(work) for work in row] for row in slot_works(job)])
    return JobConstants(
        workload=float(job.workload),
        num_slots=job.deadline,
        hard_deadline=float(job.hard_deadline),
        value=float(job.value),
        n_min=job.n_min,
        n_max=job.n_max,
        on_demand_price=float(on_demand_price),
        share=np.array(share),
        work=work,
        step=grid.step,
        units=grid.units,
        by_instance=int(isinstance(overhead, InstanceStart)),
        start=start,
        lead=float(np.diff(work[UNCHANGED]).max()),
        debt=max(0, -int(grid.units[GROWN].min())),
    )


@kernel
def change(count: int, last: int) -> int:
    """Return the row of a slot that holds `count` > 0 GPUs after one that held `last`."""
    if count > last:
        return GROWN
    return SHRUNK if count < last else UNCHANGED


# What is held in a slot, as one number: by total the count of GPUs, whose cheapest split into
# kinds follows from the slot's price; by instance on-demand GPUs * (N_max + 1) + spot GPUs.


@kernel
def num_states(terms: JobConstants) -> int:
    """Return the number of states, those that cannot be held included."""
    return (terms.n_max + 1) ** 2 if terms.by_instance else terms.n_max + 1


@kernel
def state_of(terms: JobConstants, on_demand: int, spot: int) -> int:
    """Return the state of a slot with these GPUs."""
    return on_demand * (terms.n_max + 1) + spot if terms.by_instance else on_demand + spot


@kernel
def on_demand_of(terms: JobConstants, state: int) -> int:
    """Return the on-demand GPUs of a state; by total they do not matter, and 0 stands for all."""
    return state // (terms.n_max + 1) if terms.by_instance else 0


@kernel
def total_of(terms: JobConstants, state: int) -> int:
    """Return the GPUs of a state."""
    if terms.by_instance:
        return state // (terms.n_max + 1) + state % (terms.n_max + 1)
    return state


@kernel
def can_be_held(terms: JobConstants, state: int) -> bool:
    """Return whether a state keeps N_min and N_max."""
    total = total_of(terms, state)
    return total == 0 or terms.n_min <= total <= terms.n_max


@kernel
def kept_of(terms: JobConstants, last: int, state: int) -> int:
    """Return the GPUs of a state that were held in the slot before, by instance."""
    side = terms.n_max + 1
    return min(last // side, state // side) + min(last % side, state % side)


@kernel
def work_of(terms: JobConstants, state: int, last: int) -> float:
    """Return the work of a slot in a state after one in the state `last`.

    By total mu H(n). By instance H(n) less what those that are started cost: where a start goes on
    in the next slot, its work is counted off now, and the sum may be below 0.
    """
    if terms.by_instance:
        kept = terms.work[KEPT, kept_of(terms, last, state)]
        return float(terms.work[GROWN, total_of(terms, state)] + kept)
    return float(terms.work[change(state, last), state])


@kernel
def units_of(terms: JobConstants, state: int, last: int) -> int:
    """Return `work_of` in steps of the grid."""
    if terms.by_instance:
        kept = terms.units[KEPT, kept_of(terms, last, state)]
        return int(terms.units[GROWN, total_of(terms, state)] + kept)
    return int(terms.units[change(state, last), state])


@kernel
def remaining_work(terms: JobConstants, progress: float) -> float:
    """(L - Z)^+: work still to do; 0 within the tolerance."""
    rest = terms.workload - progress
    return rest if rest > TOLERANCE * terms.workload else 0.0


def check_line(line: str) -> None:
    """Refuse a line that does not exist.

    Raises:
        InputError: naming `line`.
    """
    if line not in get_args(ProgressLine):
        raise InputError("line", repr(line), f"one of {', '.join(get_args(ProgressLine))}")


def line_code(line: ProgressLine) -> int:
    """Return `SLOT_END` or `SLOT_START`: slots between a slot's start and its point of the line."""
    return SLOT_END if line == "slot_end" else SLOT_START


@kernel
def expected_progress(terms: JobConstants, num_slots: int) -> float:
    """Work that even progress has done after `num_slots` slots: L num_slots / d (eq. 6)."""
    return terms.workload * num_slots / terms.num_slots


@kernel
def is_ahead(terms: JobConstants, progress: float, slot: int, line: int) -> bool:
    """Return whether the progress at the start of a slot has reached the line.

    Args:
        terms: the job.
        progress: Z, work done before the slot.
        slot: t, counted from 0.
        line: `SLOT_END` compares with L (t + 1) / d, `SLOT_START` with L t / d.
    """
    return progress >= expected_progress(terms, slot + line) - TOLERANCE * terms.workload


@kernel
def spot_first(total: int, available: int) -> tuple[int, int]:
    """Return a total as (on-demand, spot), with as much spot as there is."""
    spot = min(total, available)
    return total - spot, spot


@kernel
def usable_spot(terms: JobConstants, available: int) -> int:
    """Spot GPUs that can run the job by themselves: min(A, N_max), or 0 under N_min."""
    spot = min(available, terms.n_max)
    return spot if spot >= terms.n_min else 0


@kernel
def steady_work(terms: JobConstants, state: int, last: int, num_slots: int) -> float:
    """Work of a state that is held for `num_slots` slots after a slot in the state `last`."""
    if num_slots <= 0:
        return 0.0
    steady = float(terms.work[UNCHANGED, total_of(terms, state)])
    return work_of(terms, state, last) + (num_slots - 1) * steady


@kernel
def fits_after(terms: JobConstants, slot: int, progress: float, last: int, state: int) -> bool:
    """Return whether N_max GPUs from slot t + 1 on meet the deadline when slot t is in a state.

    By instance they are on-demand: no more is sure, and those that the state has not must start.
    """
    if state > 0:
        progress = progress + work_of(terms, state, last)
    most = state_of(terms, terms.n_max, 0)
    ahead = steady_work(terms, most, state, terms.num_slots - slot - 1)
    return remaining_work(terms, progress + ahead) == 0.0


@kernel
def pressed(
    terms: JobConstants, slot: int, progress: float, last: int, available: int
) -> tuple[int, int]:
    """Return N_max GPUs as (on-demand, spot), for a job that must not wait any longer.

    By total as much spot as there is. By instance no more of it than may be lost at the slot's end
    without being late: on-demand GPUs that are held then stay, since to give one up and start it
    again would take as long.
    """
    if terms.by_instance:
        for spot in range(min(available, terms.n_max), 0, -1):
            on_demand = terms.n_max - spot
            if fits_after(terms, slot, progress, last, state_of(terms, on_demand, spot)):
                return on_demand, spot
        return terms.n_max, 0
    return spot_first(terms.n_max, available)


# The account by instance where a start goes on from slot to slot: `starting` is [2, n], for
# on-demand and spot the slots that each instance needs until it works, the oldest first.


@kernel
def start_instances(
    terms: JobConstants, starting: Floats, last: tuple[int, int], held: tuple[int, int]
) -> None:
    """Begin a slot: instances beyond those of the slot before are started."""
    for kind in range(2):
        for i in range(last[kind], held[kind]):
            starting[kind, i] = terms.start


@kernel
def work_while_starting(
    terms: JobConstants, starting: Floats, held: tuple[int, int], rest: float
) -> tuple[float, float]:
    """Return the work of a slot, and the time within it at which `rest` is done.

    The work is H of the instances that work, over time; the time is 1 if the rest is more.
    """
    work, since, finish, i, j = 0.0, 0.0, 1.0, 0, 0
    while since < 1.0:
        on_demand = starting[0, i] if i < held[0] else 1.0
        spot = starting[1, j] if j < held[1] else 1.0
        until, rate = min(on_demand, spot, 1.0), terms.work[UNCHANGED, i + j]
        if work < rest <= work + (until - since) * rate:
            finish = since + (rest - work) / rate
        work += (until - since) * rate
        since = until
        if on_demand <= spot:
            i += 1
        else:
            j += 1
    return work, finish


@kernel
def end_slot(starting: Floats, held: tuple[int, int]) -> float:
    """End a slot; return the slots that all instances held together still need to start."""
    owed = 0.0
    for kind in range(2):
        for i in range(held[kind]):
            starting[kind, i] = max(starting[kind, i] - 1.0, 0.0)
            owed += starting[kind, i]
    return owed


@kernel
def owed_by_on_demand(terms: JobConstants, starting: Floats, on_demand: int) -> float:
    """Return the work that on-demand GPUs will not do while they still start."""
    owed = 0.0
    for i in range(on_demand):
        owed += starting[0, i]
    return terms.lead * owed


@kernel
def counted_progress(terms: JobConstants, progress: float, owed: float) -> float:
    """Return the work done less what starts that go on will still cost: what plans count on."""
    return progress - terms.lead * owed


# What a finished job is worth, and how a late one ends.
#
# Kong et al. (arXiv 2512.20967), eqs. 4 and 7 to 9:
#
#     V(T) = v                                 for T <= d
#          = v (1 - (T - d) / ((g - 1) d))     for d < T <= g d
#          = 0                                 after
#
# What is left at d runs on N_max on-demand GPUs for delta = (L - Z)^+ / (mu_1 H(N_max)) slots,
# paid by the fraction; no job is abandoned. So Vt(Z) = V(d + delta) - p_o N_max delta. By instance
# delta = (L - Z + s (H(N_max) - H(n))) / H(N_max) for L > Z: of the N_max the n on-demand GPUs that
# are held at d need no start.


@kernel
def value_at(terms: JobConstants, finish: float) -> float:
    """V(T)."""
    soft = float(terms.num_slots)
    if finish <= soft:
        return terms.value
    if finish > terms.hard_deadline:
        return 0.0
    return terms.value * (1.0 - (finish - soft) / (terms.hard_deadline - soft))


@kernel
def termination_slots(terms: JobConstants, rest: float, on_demand: int = 0) -> float:
    """delta: slots that N_max on-demand GPUs need for `rest`, `on_demand` of which are held."""
    if terms.by_instance:
        if rest <= TOLERANCE * terms.workload:
            return 0.0
        most = float(terms.work[UNCHANGED, terms.n_max])
        return (rest + terms.start * (most - float(terms.work[UNCHANGED, on_demand]))) / most
    return rest / float(terms.work[GROWN, terms.n_max])


@kernel
def termination_cost(terms: JobConstants, rest: float, on_demand: int = 0) -> float:
    """p_o N_max delta."""
    return terms.on_demand_price * terms.n_max * termination_slots(terms, rest, on_demand)


@kernel
def terminal_value(terms: JobConstants, rest: float, on_demand: int = 0) -> float:
    """V(d + delta) - p_o N_max delta, for what is left at the deadline."""
    finish = terms.num_slots + termination_slots(terms, rest, on_demand)
    return value_at(terms, finish) - termination_cost(terms, rest, on_demand)


def value_of_finish(job: SpotJob, finish: float) -> float:
    """V(T) (eq. 4); `finish` in slots from the job's start."""
    return value_at(job_constants(job, 1.0), float(finish))


def value_at_deadline(job: SpotJob, progress: float, on_demand_price: float = 1.0) -> float:
    """Vt(Z) (eq. 9): the value, less the cost of the ending, with `progress` done at d."""
    terms = job_constants(job, on_demand_price)
    return terminal_value(terms, remaining_work(terms, float(progress)))


def least_utility(job: SpotJob, highest_price: float, on_demand_price: float = 1.0) -> float:
    """U_min = -N_max max(p_o, p_max) (d + L / (mu_1 H(N_max))): no run is worse.

    Args:
        job: the job.
        highest_price: p_max, that no spot price passes.
        on_demand_price: p_o.
    """
    terms = job_constants(job, on_demand_price)
    slots = job.deadline + termination_slots(terms, terms.workload)
    return -job.n_max * max(on_demand_price, highest_price) * slots
