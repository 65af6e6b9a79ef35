"""UP: uniform progress, with on-demand only behind the line.

After Wu et al., "Can't Be Late" (NSDI'24), which rents one instance of either kind; here for many.
Stronger than its source where it is behind and some spot is there: on-demand GPUs are added to the
spot ones. Stronger than the UP of Kong et al. (arXiv 2512.20967), which uses on-demand only when
it is behind and no spot is there, and whose text has no safety net.

- The line rises evenly to L by d less what one start costs: line(t) = min(L, L t / (d - 1 + mu_1)).
- Ahead of the line: min(A_t, N_max) spot GPUs, none if that is under N_min.
- Behind it (Z < line(t)): the least count, at least that many spot GPUs and N_min, with which the
  progress is on the line again at the end of the slot; N_max if none regains it. Spot first,
  on-demand for the rest.
- Hysteresis: who held on-demand GPUs in the slot before counts as behind until
  Z >= line(t) + h (1 - mu_1) H(n_{t-1}): until the lead pays for h restarts of what is held.
- Safety net: if after this slot N_max GPUs could not do the rest by d any more, N_max now.
"""

from dataclasses import dataclass

from auctune.domain.checks import check_finite
from auctune.numerics.jit import kernel
from auctune.spot.allocation import SpotAllocation
from auctune.spot.job import SpotJob
from auctune.spot.observation import SpotObservation
from auctune.spot.terms import (
    GROWN,
    TOLERANCE,
    UNCHANGED,
    Terms,
    fits_after,
    make_terms,
    spot_first,
    usable_spot,
    work_of,
)


@kernel
def line(terms: Terms, slot: int) -> float:
    """Work that should be done when `slot` begins."""
    slots = terms.num_slots - 1.0 + float(terms.share[GROWN])
    return min(terms.workload, terms.workload * slot / slots)


@kernel
def is_behind(
    terms: Terms, hysteresis: float, slot: int, progress: float, last: int, last_on_demand: int
) -> bool:
    """Whether on-demand GPUs are called for."""
    goal = line(terms, slot)
    if last_on_demand > 0:
        goal += hysteresis * (1.0 - terms.share[GROWN]) * terms.work[UNCHANGED, last]
    return bool(progress < goal - TOLERANCE * terms.workload)


@kernel
def regaining_count(terms: Terms, slot: int, progress: float, last: int, spot: int) -> int:
    """The least count from `spot` and N_min on that is on the line after the slot; else N_max."""
    goal = line(terms, slot + 1) - TOLERANCE * terms.workload
    for n in range(max(spot, terms.n_min), terms.n_max):
        if progress + work_of(terms, n, last) >= goal:
            return n
    return terms.n_max


@kernel
def uniform(
    terms: Terms,
    hysteresis: float,
    slot: int,
    progress: float,
    last: int,
    last_on_demand: int,
    available: int,
) -> tuple[int, int]:
    """The (on-demand, spot) GPUs of a slot."""
    count = usable_spot(terms, available)
    if is_behind(terms, hysteresis, slot, progress, last, last_on_demand):
        count = regaining_count(terms, slot, progress, last, min(available, terms.n_max))
    if not fits_after(terms, slot, progress, last, count):
        count = terms.n_max
    return spot_first(count, available)


_HYSTERESIS = 2.0


@dataclass(frozen=True, slots=True)
class UniformProgress:
    """UP. It needs no forecast.

    Attributes:
        hysteresis: h, restarts that the lead must pay for before on-demand GPUs are given up.
    """

    hysteresis: float = _HYSTERESIS

    def __post_init__(self) -> None:
        check_finite(self.hysteresis, "hysteresis", "a number >= 0")

    @property
    def name(self) -> str:
        """The paper's; with the hysteresis where it is not the default."""
        told = self.hysteresis != _HYSTERESIS
        return f"up(hysteresis={self.hysteresis:g})" if told else "up"

    @property
    def horizon(self) -> int:
        """It looks at no forecast."""
        return 0

    def start(self, job: SpotJob) -> "UniformProgressRun":
        """A run for one job."""
        return UniformProgressRun(self, job)


class UniformProgressRun:
    """UP at work."""

    def __init__(self, params: UniformProgress, job: SpotJob) -> None:
        self._hysteresis = params.hysteresis
        self._terms = make_terms(job, 1.0)

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        """Spot, and on-demand if behind."""
        on_demand, spot = uniform(
            self._terms,
            self._hysteresis,
            observation.slot,
            observation.progress,
            observation.last.total,
            observation.last.on_demand,
            observation.available,
        )
        return SpotAllocation(on_demand, spot)
