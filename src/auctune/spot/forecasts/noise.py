"""Noise of forecasts: xi, and what it is multiplied by.

A noisy forecast of x is x + s(x) xi. The noise is magnitude-dependent, s(x) = e x, or fixed,
s(x) = e mean(x); xi is uniform in [-1, 1] or Student's t with two degrees of freedom, clipped
(Kong et al., arXiv 2512.20967, section VI, where the constants are not given).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.domain.checks import check_finite, check_positive
from auctune.spot.arrays import Floats


class Noise(Protocol):
    """The law of xi."""

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """`count` independent draws; fewer draws are the first of more."""
        ...

    def below(self, xi: Floats) -> Floats:
        """The probability of at most each xi."""
        ...


@dataclass(frozen=True, slots=True)
class UniformNoise:
    """xi uniform in [-1, 1]."""

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """Independent draws."""
        return random.uniform(-1.0, 1.0, count)

    def below(self, xi: Floats) -> Floats:
        """(1 + xi) / 2, within 0 and 1."""
        return np.clip((1.0 + xi) / 2.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class HeavyTailedNoise:
    """xi of Student's t with two degrees of freedom, clipped.

    Attributes:
        clip: the most that |xi| can be.
    """

    clip: float = 5.0

    def __post_init__(self) -> None:
        check_positive(self.clip, "clip", "a number > 0")

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """Independent draws."""
        # By the inverse of its distribution, so that each draw takes one number of the stream.
        u = random.uniform(0.0, 1.0, count)
        with np.errstate(divide="ignore"):
            t = (2.0 * u - 1.0) * np.sqrt(2.0 / (4.0 * u * (1.0 - u)))
        return np.clip(t, -self.clip, self.clip)

    def below(self, xi: Floats) -> Floats:
        """1/2 + xi / (2 sqrt(2 + xi^2)), 0 and 1 beyond the clip."""
        kept = np.clip(xi, -self.clip, self.clip)
        inside = 0.5 + kept / (2.0 * np.sqrt(2.0 + kept * kept))
        return np.where(xi < -self.clip, 0.0, np.where(xi >= self.clip, 1.0, inside))


class Magnitude(Protocol):
    """s(x), what xi is multiplied by."""

    def scale(self, values: Floats, mean: float) -> Floats:
        """s of each value; `mean` is that of the whole series."""
        ...


@dataclass(frozen=True, slots=True)
class Proportional:
    """Magnitude-dependent: s(x) = e x.

    Attributes:
        error: e, 0.1 for ten per cent.
    """

    error: float

    def __post_init__(self) -> None:
        check_finite(self.error, "error", "a number >= 0")

    def scale(self, values: Floats, mean: float) -> Floats:
        """e x."""
        return self.error * values


@dataclass(frozen=True, slots=True)
class Fixed:
    """Fixed magnitude: s(x) = e mean(x).

    Attributes:
        error: e, 0.1 for ten per cent.
    """

    error: float

    def __post_init__(self) -> None:
        check_finite(self.error, "error", "a number >= 0")

    def scale(self, values: Floats, mean: float) -> Floats:
        """e mean(x)."""
        return np.full(values.shape, self.error * mean)
