"""Who answers requests for one zone, once they are known to be for its kind."""

from typing import Any, Protocol

from auctune.service.zones.answers_requests import AnswersRequests
from auctune.service.zones.docket import Docket


class TakesBids(AnswersRequests, Protocol):
    """Shows prices or estimates, and takes bids."""

    @property
    def pending_jobs(self) -> Docket[Any, Any]:
        """Jobs that are to be decided on."""
        ...
