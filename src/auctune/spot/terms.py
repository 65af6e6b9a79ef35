"""A job as the kernels read it, and what one slot does to it."""

from typing import Literal, NamedTuple, get_args

import numpy as np

from auctune.domain import InputError
from auctune.numerics.jit import kernel
from auctune.spot.arrays import Floats, Ints
from auctune.spot.grid import WorkGrid, plan_grid, slot_works
from auctune.spot.job import SpotJob

# Rows of work, units and share: how the number of GPUs changed.
GROWN, SHRUNK, UNCHANGED = 0, 1, 2

# Work that differs from a target by less than this share of the workload meets it: sums of tenths
# are not exact in binary.
TOLERANCE = 1e-9

# Which point of the line of even progress a policy compares the progress at a slot's start with:
# the one at the slot's end (the paper's, which counts slots from 1), or the one at its start.
ProgressLine = Literal["slot_end", "slot_start"]
SLOT_START, SLOT_END = 0, 1


class Terms(NamedTuple):
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


def make_terms(job: SpotJob, on_demand_price: float, grid: WorkGrid | None = None) -> Terms:
    """The terms of a job; `grid` is that of plans unless another is given."""
    grid = grid or plan_grid(job)
    return Terms(
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
    """The row of a slot that holds `count` > 0 GPUs after one that held `last`."""
    if count > last:
        return GROWN
    return SHRUNK if count < last else UNCHANGED


@kernel
def work_of(terms: Terms, count: int, last: int) -> float:
    """mu H(n): work of a slot with `count` GPUs after one with `last`."""
    return float(terms.work[change(count, last), count])


@kernel
def rest_of(terms: Terms, progress: float) -> float:
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
def expected_progress(terms: Terms, num_slots: int) -> float:
    """Work that even progress has done after `num_slots` slots: L num_slots / d (eq. 6)."""
    return terms.workload * num_slots / terms.num_slots


@kernel
def is_ahead(terms: Terms, progress: float, slot: int, line: int) -> bool:
    """Whether the progress at the start of a slot has reached the line.

    Args:
        terms: the job.
        progress: Z, work done before the slot.
        slot: t, counted from 0.
        line: `SLOT_END` compares with L (t + 1) / d, `SLOT_START` with L t / d.
    """
    return progress >= expected_progress(terms, slot + line) - TOLERANCE * terms.workload


@kernel
def spot_first(total: int, available: int) -> tuple[int, int]:
    """A total as (on-demand, spot), with as much spot as there is."""
    spot = min(total, available)
    return total - spot, spot


@kernel
def usable_spot(terms: Terms, available: int) -> int:
    """Spot GPUs that can run the job by themselves: min(A, N_max), or 0 under N_min."""
    spot = min(available, terms.n_max)
    return spot if spot >= terms.n_min else 0


@kernel
def steady_work(terms: Terms, count: int, last: int, num_slots: int) -> float:
    """Work of `count` GPUs held for `num_slots` slots after a slot with `last`."""
    if num_slots <= 0:
        return 0.0
    return work_of(terms, count, last) + (num_slots - 1) * float(terms.work[UNCHANGED, count])


@kernel
def fits_after(terms: Terms, slot: int, progress: float, last: int, count: int) -> bool:
    """Whether N_max GPUs from slot t + 1 on meet the deadline when slot t holds `count`."""
    if count > 0:
        progress = progress + work_of(terms, count, last)
    ahead = steady_work(terms, terms.n_max, count, terms.num_slots - slot - 1)
    return rest_of(terms, progress + ahead) == 0.0
