"""The share of a slot left for work when the number of GPUs changes.

Kong et al. (arXiv 2512.20967), eq. 2: mu_1 where GPUs are added (start and reconfiguration),
mu_2 where some are given up (reconfiguration), 1 where their number stays.
"""

from dataclasses import dataclass

from auctune.domain import InputError
from auctune.domain.checks import check_positive


@dataclass(frozen=True, slots=True)
class Overhead:
    """Effective shares of a slot, 0 < mu1 <= mu2 <= 1.

    Attributes:
        mu1: after a start or a growth; the default is 3 minutes of 30 lost.
        mu2: after a shrinking.
    """

    mu1: float = 0.9
    mu2: float = 0.95

    def __post_init__(self) -> None:
        check_positive(self.mu1, "mu1", "a number > 0")
        check_positive(self.mu2, "mu2", "a number > 0")
        if self.mu1 > self.mu2:
            raise InputError("mu1", f"{self.mu1!r}", f"a number <= mu2 = {self.mu2!r}")
        if self.mu2 > 1:
            raise InputError("mu2", f"{self.mu2!r}", "a number <= 1")
