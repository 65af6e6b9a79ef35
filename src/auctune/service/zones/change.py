"""What an event changes outside of a zone's memory."""

from dataclasses import dataclass

from auctune.service.ledger import Entry
from auctune.service.zones.job_row import JobRow


@dataclass(frozen=True, slots=True)
class Change:
    """What an event changes outside of the zone's memory.

    Attributes:
        rows: jobs as readers see them from now on.
        entries: of the ledger; they sum to zero.
    """

    rows: tuple[JobRow, ...] = ()
    entries: tuple[Entry, ...] = ()
