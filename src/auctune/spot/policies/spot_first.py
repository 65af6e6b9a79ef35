"""MSU: all the spot there is, at any price, until the deadline presses.

In each slot min(A_t, N_max) spot GPUs, none if that is under N_min, as long as N_max GPUs from the
next slot on can still do the rest by d. Otherwise N_max now: spot first, on-demand for the rest. So
the deadline is met whenever N_max GPUs from the beginning meet it. That is stronger than the MSU of
Kong et al. (arXiv 2512.20967), which switches "near the deadline" and can be late.
"""

from dataclasses import dataclass

from auctune.numerics.jit import kernel
from auctune.spot.allocation import SpotAllocation
from auctune.spot.job import SpotJob
from auctune.spot.observation import SpotObservation
from auctune.spot.terms import Terms, fits_after, make_terms, spot_first, usable_spot


@kernel
def all_spot(
    terms: Terms, slot: int, progress: float, last: int, available: int
) -> tuple[int, int]:
    """The (on-demand, spot) GPUs of a slot."""
    spot = usable_spot(terms, available)
    if fits_after(terms, slot, progress, last, spot):
        return 0, spot
    return spot_first(terms.n_max, available)


@dataclass(frozen=True, slots=True)
class SpotFirst:
    """MSU, maximal spot utilization. It needs no forecast."""

    @property
    def name(self) -> str:
        """The paper's."""
        return "msu"

    @property
    def horizon(self) -> int:
        """It looks at no forecast."""
        return 0

    def start(self, job: SpotJob) -> "SpotFirstRun":
        """A run for one job."""
        return SpotFirstRun(job)


class SpotFirstRun:
    """MSU at work."""

    def __init__(self, job: SpotJob) -> None:
        self._terms = make_terms(job, 1.0)

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        """All spot, or all that can be held."""
        on_demand, spot = all_spot(
            self._terms,
            observation.slot,
            observation.progress,
            observation.last.total,
            observation.available,
        )
        return SpotAllocation(on_demand, spot)
