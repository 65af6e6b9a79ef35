"""What can go wrong with a run that is nobody's input."""

from auctune.domain import AuctuneError


class SpotRunError(AuctuneError):
    """The workers of a run cannot do its work."""


class CapReachedError(AuctuneError):
    """What comes next would cost more than may be paid; all that was paid is on record.

    Attributes:
        rate: what the slot that comes next would cost, in prices of the market.
    """

    def __init__(self, rate: float) -> None:
        super().__init__(f"the next slot would cost {rate:g} more")
        self.rate = rate


class StoppedError(AuctuneError):
    """Whoever runs it wants it to stop; it can go on later."""
