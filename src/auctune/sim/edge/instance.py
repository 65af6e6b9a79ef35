"""A market of edge sites and all bids on it."""

from dataclasses import dataclass

from auctune.domain import InputError
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket


@dataclass(frozen=True, slots=True)
class EdgeInstance:
    """A market and its jobs.

    Attributes:
        market: the supply, empty.
        jobs: all bids; those of one slot are answered in this order.
    """

    market: EdgeMarket
    jobs: tuple[EdgeJob, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for index, job in enumerate(self.jobs):
            if job.id in seen:
                raise InputError(f"jobs[{index}].id", f"{job.id!r} is there twice", "each id once")
            seen.add(job.id)
            try:
                self.market.check(job)
            except InputError as error:
                raise error.within(f"jobs[{index}]") from None

    def in_order(self) -> tuple[EdgeJob, ...]:
        """The jobs by arrival."""
        return tuple(sorted(self.jobs, key=lambda job: job.arrival))
