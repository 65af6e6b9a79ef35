"""What a quote asks: one job, and the market as it stands; answered on any thread.

A menu of many sites and chunks takes a second and more. The desk only copies what is sold; bids go
on meanwhile, and a line that one of them takes is found out when it is accepted.
"""

from dataclasses import dataclass

from auctune.edge import EdgeJob, EdgeMenu, Eris


@dataclass(frozen=True, slots=True)
class EdgeQuestion:
    """Of one quote.

    Attributes:
        eris: the mechanism as it stood; nobody else's.
        job: as the mechanism is asked about it.
        slot: the current one.
        last: the last slot that is asked about.
    """

    eris: Eris
    job: EdgeJob
    slot: int
    last: int

    def answer(self) -> EdgeMenu:
        """Prices by finish time; what the job bids does not count.

        Raises:
            InputError: if the job does not fit the market.
        """
        lines = self.eris.quote(self.job, self.slot).lines
        return EdgeMenu(self.job.id, tuple(line for line in lines if line.finish <= self.last))
