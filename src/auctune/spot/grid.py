"""A grid of work on which every slot's work lies.

Dynamic programs walk over work in steps of q. On the exact grid q is the greatest common divisor
of all mu * H(n), so that nothing is rounded; decimals are taken at their word (0.9 is 9/10). Where
that step is too fine, a rounded grid stands in: rounded down for plans, so that no plan counts on
work that will not come, and up for bounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Literal

import numpy as np

from auctune.spot.arrays import Ints
from auctune.spot.job import SpotJob
from auctune.spot.scaling import as_fraction

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
    """The coarsest grid that holds all works of a slot.

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
    """A grid of `num_steps` to the workload, on which the works of a slot are rounded."""
    step = as_fraction(job.workload) / num_steps
    rounded = math.floor if rounding == "down" else math.ceil
    return WorkGrid(float(step), _units(slot_works(job), step, rounded), rounding)


def plan_grid(job: SpotJob) -> WorkGrid:
    """The grid of plans: exact where that is in reach, else rounded down."""
    return exact_grid(job) or rounded_grid(job, "down")


def _common_divisor(x: Fraction, y: Fraction) -> Fraction:
    return Fraction(
        math.gcd(x.numerator * y.denominator, y.numerator * x.denominator),
        x.denominator * y.denominator,
    )


def _units(works: Sequence[Sequence[Fraction]], step: Fraction, rounded: object) -> Ints:
    assert callable(rounded)
    return np.array([[rounded(work / step) for work in row] for row in works], dtype=np.int64)
