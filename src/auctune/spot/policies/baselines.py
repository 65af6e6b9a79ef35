"""Policies without a forecast: OD-Only, MSU and UP."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from auctune.domain.checks import check_count, check_finite
from auctune.numerics.jit import kernel
from auctune.spot.account import (
    TOLERANCE,
    JobConstants,
    effective_progress,
    job_constants,
    remaining_work,
    state_of,
    total_of,
    work_of,
)
from auctune.spot.deadline import deadline_guard, fits_after, spot_first, steady_work, usable_spot
from auctune.spot.grid import GROWN, UNCHANGED
from auctune.spot.job import SpotJob
from auctune.spot.policy import SpotAllocation, SpotObservation


class StatelessPolicy(ABC):
    """Base of policies that decide each slot from what they observe then, without a forecast."""

    __slots__ = ()

    @property
    def horizon(self) -> int:
        return 0

    def start(self, job: SpotJob) -> "StatelessRun":
        """Return a run for one job."""
        return StatelessRun(self, job_constants(job, 1.0))

    @abstractmethod
    def decide(self, terms: JobConstants, observation: SpotObservation) -> tuple[int, int]:
        """Return the (on-demand, spot) GPUs of a slot."""


def progress_and_state(terms: JobConstants, observation: SpotObservation) -> tuple[float, int]:
    """Return the progress that plans count on, and what was held in the slot before."""
    last = observation.last
    return (
        effective_progress(terms, observation.progress, observation.owed),
        state_of(terms, last.on_demand, last.spot),
    )


class StatelessRun:
    """A stateless policy on one job."""

    def __init__(self, policy: StatelessPolicy, terms: JobConstants) -> None:
        self._policy, self._terms = policy, terms

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        return SpotAllocation(*self._policy.decide(self._terms, observation))


# OD-Only: on-demand GPUs alone, the fewest that meet the deadline.
#
# In each slot the least n in N_min..N_max that finishes by d if it is held from now on, the
# overhead of changing to it included; N_max if none does. It is asked anew each slot, so that a
# count chosen for its last fraction of work falls when a lower one has become enough.


@kernel
def least_steady_count(terms: JobConstants, slot: int, progress: float, last: int) -> int:
    """Return the least count that meets the deadline if it is held from `slot` on; else N_max."""
    for n in range(terms.n_min, terms.n_max):
        steady = steady_work(terms, state_of(terms, n, 0), last, terms.num_slots - slot)
        if remaining_work(terms, progress + steady) == 0.0:
            return n
    return terms.n_max


@dataclass(frozen=True, slots=True)
class OnDemandOnly(StatelessPolicy):
    """OD-Only."""

    @property
    def name(self) -> str:
        return "od-only"

    def decide(self, terms: JobConstants, observation: SpotObservation) -> tuple[int, int]:
        progress, last = progress_and_state(terms, observation)
        return least_steady_count(terms, observation.slot, progress, last), 0


# MSU: all the spot there is, at any price, until the deadline presses.
#
# In each slot min(A_t, N_max) spot GPUs, none if that is under N_min, as long as N_max GPUs from
# the next slot on can still do the rest by d. Otherwise N_max now: spot first, on-demand for the
# rest (by instance: as `deadline_guard` says). So the deadline is met whenever N_max GPUs from the
# beginning meet it. That is stronger than the MSU of Kong et al. (arXiv 2512.20967), which
# "switches to on-demand instances near the deadline" and can be late: `switch` makes it N_max GPUs
# in the last slots alone, however many that takes.

# No fixed slots: the switch is when the deadline guard says so.
BY_GUARD = -1


@kernel
def all_spot(
    terms: JobConstants, switch: int, slot: int, progress: float, last: int, available: int
) -> tuple[int, int]:
    """Return the (on-demand, spot) GPUs of a slot."""
    spot = usable_spot(terms, available)
    if switch != BY_GUARD:
        early = slot < terms.num_slots - switch
        return (0, spot) if early else spot_first(terms.n_max, available)
    if fits_after(terms, slot, progress, last, state_of(terms, 0, spot)):
        return 0, spot
    return deadline_guard(terms, slot, progress, last, available)


@dataclass(frozen=True, slots=True)
class SpotFirst(StatelessPolicy):
    """MSU, maximal spot utilization.

    Attributes:
        switch: last slots before the deadline in which N_max GPUs are held, 0 for none; None: from
            the slot on in which fewer would be late.
    """

    switch: int | None = None

    def __post_init__(self) -> None:
        if self.switch is not None:
            check_count(self.switch, "switch", 0)

    @property
    def name(self) -> str:
        return "msu" if self.switch is None else f"msu(switch={self.switch})"

    def decide(self, terms: JobConstants, observation: SpotObservation) -> tuple[int, int]:
        progress, last = progress_and_state(terms, observation)
        return all_spot(
            terms, switch_code(self), observation.slot, progress, last, observation.available
        )


def switch_code(policy: SpotFirst) -> int:
    """Return the slots before the deadline, or `BY_GUARD`."""
    return BY_GUARD if policy.switch is None else policy.switch


# UP: uniform progress, with on-demand only behind the line.
#
# After Wu et al., "Can't Be Late" (NSDI'24), which rents one instance of either kind; here for
# many. Kong et al. (arXiv 2512.20967) compare with it as follows: on-demand only when the job is
# behind and no spot is there (`top_up=False`), and without a word on its source's safety net
# (`safety_net=False`). The defaults are stronger than both.
#
# - The line rises evenly to L by d less what one start costs: line(t) = min(L, L t / (d - 1 +
# mu_1)).
# - Ahead of the line: min(A_t, N_max) spot GPUs, none if that is under N_min.
# - Behind it (Z < line(t)): the least count, at least that many spot GPUs and N_min, with which the
#   progress is on the line again at the end of the slot; N_max if none regains it. Spot first,
#   on-demand for the rest. Without `top_up` only where there are no spot GPUs, or too few to run.
# - Hysteresis: who held on-demand GPUs in the slot before counts as behind until
#   Z >= line(t) + h (1 - mu_1) H(n_{t-1}): until the lead pays for h restarts of what is held.
# - Safety net: if after this slot N_max GPUs could not do the rest by d any more, N_max now. By
#   instance the N_max are on-demand GPUs and their start is reserved; see `deadline_guard`.


@kernel
def line(terms: JobConstants, slot: int) -> float:
    """Work that should be done when `slot` begins."""
    slots = terms.num_slots - 1.0 + float(terms.share[GROWN])
    return min(terms.workload, terms.workload * slot / slots)


@kernel
def is_behind(
    terms: JobConstants,
    hysteresis: float,
    slot: int,
    progress: float,
    last: int,
    last_on_demand: int,
) -> bool:
    """Return whether on-demand GPUs are called for."""
    goal = line(terms, slot)
    if last_on_demand > 0:
        held = terms.work[UNCHANGED, total_of(terms, last)]
        goal += hysteresis * (1.0 - terms.share[GROWN]) * held
    return bool(progress < goal - TOLERANCE * terms.workload)


@kernel
def regaining_count(terms: JobConstants, slot: int, progress: float, last: int, spot: int) -> int:
    """The least count from `spot` and N_min on that is on the line after the slot; else N_max."""
    goal = line(terms, slot + 1) - TOLERANCE * terms.workload
    for n in range(max(spot, terms.n_min), terms.n_max):
        if progress + work_of(terms, state_of(terms, n - spot, spot), last) >= goal:
            return n
    return terms.n_max


@kernel
def uniform(
    terms: JobConstants,
    hysteresis: float,
    top_up: bool,
    safety_net: bool,
    slot: int,
    progress: float,
    last: int,
    last_on_demand: int,
    available: int,
) -> tuple[int, int]:
    """Return the (on-demand, spot) GPUs of a slot."""
    count = usable_spot(terms, available)
    may_add = top_up or count == 0
    if may_add and is_behind(terms, hysteresis, slot, progress, last, last_on_demand):
        count = regaining_count(terms, slot, progress, last, min(available, terms.n_max))
    on_demand, spot = spot_first(count, available)
    state = state_of(terms, on_demand, spot)
    if safety_net and not fits_after(terms, slot, progress, last, state):
        return deadline_guard(terms, slot, progress, last, available)
    return on_demand, spot


_HYSTERESIS = 2.0


@dataclass(frozen=True, slots=True)
class UniformProgress(StatelessPolicy):
    """UP.

    Attributes:
        hysteresis: h, restarts that the lead must pay for before on-demand GPUs are given up.
        top_up: behind the line, add on-demand GPUs to the spot ones that there are.
        safety_net: hold N_max GPUs where the deadline would be missed otherwise.
    """

    hysteresis: float = _HYSTERESIS
    top_up: bool = True
    safety_net: bool = True

    def __post_init__(self) -> None:
        check_finite(self.hysteresis, "hysteresis", "a number >= 0")

    @property
    def name(self) -> str:
        parts = [] if self.hysteresis == _HYSTERESIS else [f"hysteresis={self.hysteresis:g}"]
        parts += [] if self.top_up else ["top_up=false"]
        parts += [] if self.safety_net else ["safety_net=false"]
        return f"up({','.join(parts)})" if parts else "up"

    def decide(self, terms: JobConstants, observation: SpotObservation) -> tuple[int, int]:
        progress, last = progress_and_state(terms, observation)
        return uniform(
            terms,
            self.hysteresis,
            self.top_up,
            self.safety_net,
            observation.slot,
            progress,
            last,
            observation.last.on_demand,
            observation.available,
        )
