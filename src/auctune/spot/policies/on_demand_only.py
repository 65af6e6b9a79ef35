"""OD-Only: on-demand GPUs alone, the fewest that meet the deadline.

In each slot the least n in N_min..N_max that finishes by d if it is held from now on, the overhead
of changing to it included; N_max if none does. It is asked anew each slot, so that a count chosen
for its last fraction of work falls when a lower one has become enough.
"""

from dataclasses import dataclass

from auctune.numerics.jit import kernel
from auctune.spot.allocation import SpotAllocation
from auctune.spot.job import SpotJob
from auctune.spot.observation import SpotObservation
from auctune.spot.terms import Terms, make_terms, rest_of, steady_work


@kernel
def least_steady_count(terms: Terms, slot: int, progress: float, last: int) -> int:
    """The least count that meets the deadline if it is held from `slot` on; else N_max."""
    for n in range(terms.n_min, terms.n_max):
        if rest_of(terms, progress + steady_work(terms, n, last, terms.num_slots - slot)) == 0.0:
            return n
    return terms.n_max


@dataclass(frozen=True, slots=True)
class OnDemandOnly:
    """OD-Only. It needs no forecast."""

    @property
    def name(self) -> str:
        """The paper's."""
        return "od-only"

    @property
    def horizon(self) -> int:
        """It looks at no forecast."""
        return 0

    def start(self, job: SpotJob) -> "OnDemandOnlyRun":
        """A run for one job."""
        return OnDemandOnlyRun(job)


class OnDemandOnlyRun:
    """OD-Only at work."""

    def __init__(self, job: SpotJob) -> None:
        self._terms = make_terms(job, 1.0)

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        """The least count that meets the deadline."""
        count = least_steady_count(
            self._terms, observation.slot, observation.progress, observation.last.total
        )
        return SpotAllocation(count, 0)
