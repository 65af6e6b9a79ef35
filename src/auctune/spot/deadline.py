"""Checks of policies against the deadline: the line of even progress, and what is in time."""

from typing import Literal, get_args

from auctune.domain import InputError
from auctune.numerics.jit import kernel
from auctune.spot.account import (
    TOLERANCE,
    JobConstants,
    remaining_work,
    state_of,
    total_of,
    work_of,
)
from auctune.spot.grid import UNCHANGED

# Which point of the line of even progress a policy compares the progress at a slot's start with:
# the one at the slot's end (the paper's, which counts slots from 1), or the one at its start.
ProgressLine = Literal["slot_end", "slot_start"]
SLOT_START, SLOT_END = 0, 1


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
def deadline_guard(
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
