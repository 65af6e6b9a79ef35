"""A job as the kernels read it: the work grid, the effect of one slot, the value of the end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Literal, NamedTuple, get_args

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.job import SpotJob, as_fraction

# A grid of work on which every slot's work lies.
#
# Dynamic programs walk over work in steps of q. On the exact grid q is the greatest common divisor
# of all mu * H(n), so that nothing is rounded; decimals are taken at their word (0.9 is 9/10).
# Where that step is too fine, a rounded grid stands in: rounded down for plans, so that no plan
# counts on work that will not come, and up for bounds.


# Beyond so many steps of the workload a dynamic program is slower than rounding is harmful.
MOST_STEPS = 20_000
ROUNDED_STEPS = 2_000

Rounding = Literal["none", "down", "up"]


@dataclass(frozen=True, slots=True, eq=False)
class WorkGrid:
    """Work in whole steps.

    Attributes:
        step: q, units of work.
        units: [3, n] steps done in a slot by n GPUs after a growth, a shrinking, and no change.
        rounding: what was done to work that is no multiple of q.
    """

    step: float
    units: Ints
    rounding: Rounding


def slot_works(job: SpotJob) -> list[list[Fraction]]:
    """[3][n] exact work of a slot: mu_1 H(n), mu_2 H(n), H(n); 0 for counts under N_min."""
    shares = [as_fraction(job.overhead.mu1), as_fraction(job.overhead.mu2), Fraction(1)]
    whole = [
        job.scaling.throughput(n) if n >= job.n_min else Fraction(0) for n in range(job.n_max + 1)
    ]
    return [[share * work for work in whole] for share in shares]


def exact_grid(job: SpotJob, most_steps: int = MOST_STEPS) -> WorkGrid | None:
    """Return the coarsest grid that holds all works of a slot.

    Returns:
        None where the workload is more than `most_steps` steps of it.
    """
    works = slot_works(job)
    step = reduce(_common_divisor, (work for row in works for work in row if work))
    if as_fraction(job.workload) / step > most_steps:
        return None
    return WorkGrid(float(step), _units(works, step, math.floor), "none")


def rounded_grid(
    job: SpotJob, rounding: Literal["down", "up"], num_steps: int = ROUNDED_STEPS
) -> WorkGrid:
    """Return a grid of `num_steps` to the workload, on which the works of a slot are rounded."""
    step = as_fraction(job.workload) / num_steps
    rounded = math.floor if rounding == "down" else math.ceil
    return WorkGrid(float(step), _units(slot_works(job), step, rounded), rounding)


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


# Rows of work, units and share: how the number of GPUs changed.
GROWN, SHRUNK, UNCHANGED = 0, 1, 2

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
        share: [3] mu by kind of change.
        work: [3, n] mu H(n), by kind of change.
        step: of the work grid.
        units: [3, n] steps of the grid, by kind of change.
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


def job_constants(
    job: SpotJob, on_demand_price: float, grid: WorkGrid | None = None
) -> JobConstants:
    """Return the terms of a job; `grid` is that of plans unless another is given."""
    grid = grid or plan_grid(job)
    return JobConstants(
        workload=float(job.workload),
        num_slots=job.deadline,
        hard_deadline=float(job.hard_deadline),
        value=float(job.value),
        n_min=job.n_min,
        n_max=job.n_max,
        on_demand_price=float(on_demand_price),
        share=np.array([job.overhead.mu1, job.overhead.mu2, 1.0]),
        work=np.array([[float(work) for work in row] for row in slot_works(job)]),
        step=grid.step,
        units=grid.units,
    )


@kernel
def change(count: int, last: int) -> int:
    """Return the row of a slot that holds `count` > 0 GPUs after one that held `last`."""
    if count > last:
        return GROWN
    return SHRUNK if count < last else UNCHANGED


@kernel
def work_of(terms: JobConstants, count: int, last: int) -> float:
    """mu H(n): work of a slot with `count` GPUs after one with `last`."""
    return float(terms.work[change(count, last), count])


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
def steady_work(terms: JobConstants, count: int, last: int, num_slots: int) -> float:
    """Work of `count` GPUs held for `num_slots` slots after a slot with `last`."""
    if num_slots <= 0:
        return 0.0
    return work_of(terms, count, last) + (num_slots - 1) * float(terms.work[UNCHANGED, count])


@kernel
def fits_after(terms: JobConstants, slot: int, progress: float, last: int, count: int) -> bool:
    """Return whether N_max GPUs from slot t + 1 on meet the deadline when slot t holds `count`."""
    if count > 0:
        progress = progress + work_of(terms, count, last)
    ahead = steady_work(terms, terms.n_max, count, terms.num_slots - slot - 1)
    return remaining_work(terms, progress + ahead) == 0.0


# What a finished job is worth, and how a late one ends.
#
# Kong et al. (arXiv 2512.20967), eqs. 4 and 7 to 9:
#
#     V(T) = v                                 for T <= d
#          = v (1 - (T - d) / ((g - 1) d))     for d < T <= g d
#          = 0                                 after
#
# What is left at d runs on N_max on-demand GPUs for delta = (L - Z)^+ / (mu_1 H(N_max)) slots,
# paid by the fraction; no job is abandoned. So Vt(Z) = V(d + delta) - p_o N_max delta.


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
def termination_slots(terms: JobConstants, rest: float) -> float:
    """delta: slots that N_max on-demand GPUs need for `rest`."""
    return rest / float(terms.work[GROWN, terms.n_max])


@kernel
def termination_cost(terms: JobConstants, rest: float) -> float:
    """p_o N_max delta."""
    return terms.on_demand_price * terms.n_max * termination_slots(terms, rest)


@kernel
def terminal_value(terms: JobConstants, rest: float) -> float:
    """V(d + delta) - p_o N_max delta, for what is left at the deadline."""
    return value_at(terms, terms.num_slots + termination_slots(terms, rest)) - termination_cost(
        terms, rest
    )


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
