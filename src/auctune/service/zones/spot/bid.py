"""A bid in a spot zone."""

from dataclasses import dataclass

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import ZoneBid
from auctune.service.zones.core.metered import Estimate
from auctune.service.zones.spot.job import Pace


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """Inputs of an estimate; slots may have begun since.

    Attributes:
        slot: newest slot then.
        first: first slot of the job.
        deadline, hard_factor: see `JobTerms`.
        start_seconds, speeds: see `Pace`, by which the job is planned too.
    """

    slot: int
    first: int
    deadline: int
    hard_factor: float
    start_seconds: float
    speeds: tuple[float, ...]

    @property
    def pace(self) -> Pace:
        """The pace of the zone then."""
        return Pace(self.start_seconds, self.speeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotBid(ZoneBid):
    """Bid in a spot zone.

    Attributes:
        size: of the data.
        worth: value of the job by finish time.
        cap: maximum of all charges.
        estimate: of cost and finish, made just before.
        estimated: inputs of the estimate.
    """

    size: DataSize
    worth: JobValue
    cap: Money
    estimate: Estimate
    estimated: EstimateInputs
