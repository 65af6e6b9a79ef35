"""What a job is worth by the slots that it takes: f_i, non-negative and non-increasing.

A job that finishes in its arrival slot has duration 0.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.edge.limits import MOST_WORTH, check_most


class Utility(Protocol):
    """A utility function; two that are equal give equal values."""

    def __call__(self, duration: int) -> float:
        """The job's worth, money, when it takes `duration` >= 0 slots after its arrival slot."""
        ...


@dataclass(frozen=True, slots=True)
class Logistic:
    """f(duration) = scale / (1 + exp(duration / decay)); Pang et al. (TMC 2024), section VI-B.

    Attributes:
        scale: money; the job is worth half of it at duration 0.
        decay: slots, > 0.
    """

    scale: float
    decay: float

    def __post_init__(self) -> None:
        check_finite(self.scale, "scale", "money >= 0")
        check_most(self.scale, "scale", MOST_WORTH)
        check_positive(self.decay, "decay", "slots > 0")

    def __call__(self, duration: int) -> float:
        """Its value; 0 where the exponential leaves float64."""
        exponent = duration / self.decay
        return 0.0 if exponent > 700 else self.scale / (1 + math.exp(exponent))


@dataclass(frozen=True, slots=True)
class ByDuration:
    """A table: values[duration], and 0 beyond it.

    Attributes:
        values: money, none above the one before it.
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("values", "is empty", "money by duration, one number at least")
        check_most(self.values[0], "values[0]", MOST_WORTH)
        for duration, value in enumerate(self.values):
            check_finite(value, f"values[{duration}]", "money >= 0")
            if duration and value > self.values[duration - 1]:
                raise InputError(
                    f"values[{duration}]", f"{value!r} is above the one before", "no rising values"
                )

    def __call__(self, duration: int) -> float:
        """Its value."""
        return self.values[duration] if duration < len(self.values) else 0.0
