"""Shares of the pool for one unit of time."""

from dataclasses import dataclass

from auctune.domain.errors import AuctuneError
from auctune.timeshare.arrays import Floats

# Sums of shares that are scaled to 1 miss it by rounding.
TOLERANCE = 1e-9


class InfeasibleSharesError(AuctuneError):
    """An allocator gives away what there is not."""


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """eta: shares >= 0 of the threads, whose sum is at most 1.

    Attributes:
        eta: [k] share of each thread.
    """

    eta: Floats

    def __post_init__(self) -> None:
        if self.eta.ndim != 1:
            raise InfeasibleSharesError(f"shares have {self.eta.ndim} dimensions; expected one")
        total = float(self.eta.sum())
        least = float(self.eta.min()) if len(self.eta) else 0.0
        # NaN passes no comparison.
        if not (least >= 0.0 and total <= 1.0 + TOLERANCE):
            raise InfeasibleSharesError(
                f"the least share is {least!r} and their sum {total!r}; expected >= 0 and <= 1"
            )
