"""A grid of work on which every slot's work lies.

Dynamic programs walk over work in steps of q. On the exact grid q is the greatest common divisor
of all mu * H(n), so that nothing is rounded; decimals are taken at their word (0.9 is 9/10).
Where that step is too fine, a rounded grid stands in: rounded down for plans, so that no plan
counts on work that will not come, and up for bounds.
"""

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Literal, NamedTuple

import numpy as np

from auctune.numerics.arrays import Ints
from auctune.spot.job import InstanceStart, SpotJob, as_fraction

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


class WorkGrid(NamedTuple):
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


def _units(
    works: Sequence[Sequence[Fraction]], step: Fraction, rounded: Callable[[Fraction], int]
) -> Ints:
    return np.array([[rounded(work / step) for work in row] for row in works], dtype=np.int64)
