"""Forecasts that are the truth and noise of a known law, and the quantiles that they imply."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.domain.checks import check_finite, check_positive
from auctune.numerics.arrays import Floats
from auctune.numerics.rng import stream
from auctune.spot.forecasts.forecast import Forecast, point_forecast
from auctune.spot.forecasts.naive import LEVELS, what_comes, whole
from auctune.spot.market import SpotMarket

# Noise of forecasts: xi, and what it is multiplied by.
#
# A noisy forecast of x is x + s(x) xi. The noise is magnitude-dependent, s(x) = e x, or fixed,
# s(x) = e mean(x); xi is uniform in [-1, 1] or Student's t with two degrees of freedom, clipped
# (Kong et al., arXiv 2512.20967, section VI, where the constants are not given).


class Noise(Protocol):
    """The law of xi."""

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """`count` independent draws; fewer draws are the first of more."""
        ...

    def below(self, xi: Floats) -> Floats:
        """Return the probability of at most each xi."""
        ...


@dataclass(frozen=True, slots=True)
class UniformNoise:
    """xi uniform in [-1, 1]."""

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        return random.uniform(-1.0, 1.0, count)

    def below(self, xi: Floats) -> Floats:
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
        # By the inverse of its distribution, so that each draw takes one number of the stream.
        u = random.uniform(0.0, 1.0, count)
        with np.errstate(divide="ignore"):
            t = (2.0 * u - 1.0) * np.sqrt(2.0 / (4.0 * u * (1.0 - u)))
        return np.clip(t, -self.clip, self.clip)

    def below(self, xi: Floats) -> Floats:
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
        return np.full(values.shape, self.error * mean)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyForecaster:
    """The truth plus s(x) xi: prices at least 0, counts whole and within the cap.

    Points alone; `auctune.spot.forecasts.noise` makes quantiles of them. The noise of a slot
    is drawn anew each time the slot is forecast, and depends on the seed and on the two slots.

    Attributes:
        market: the whole series, of which each past given is the beginning.
        magnitude: s.
        noise: the law of xi.
        cap: the most spot GPUs there can be.
        seed: of the noise.
    """

    market: SpotMarket
    magnitude: Magnitude
    noise: Noise
    cap: int
    seed: int = 0

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        made = past.num_slots - 1
        price, available = what_comes(self.market, past.num_slots, num_slots)
        counts = available.astype(np.float64)
        of_price = self.noise.draw(stream(self.seed, "price", made), num_slots)
        of_count = self.noise.draw(stream(self.seed, "available", made), num_slots)
        price = price + self.price_scale(price) * of_price
        counts = counts + self.count_scale(counts) * of_count
        return point_forecast(np.maximum(price, 0.0), whole(counts, self.cap))

    def price_scale(self, price: Floats) -> Floats:
        """s of prices."""
        return self.magnitude.scale(price, float(self.market.price.mean()))

    def count_scale(self, counts: Floats) -> Floats:
        """s of counts."""
        return self.magnitude.scale(counts, float(self.market.available.mean()))


# Quantiles of noisy forecasts: what was likely before, weighed by what the forecast says.
#
# Before the forecast f of slot t + h is heard, the values x_i likely there are today's value and
# the changes over h slots that the past has seen: x_i = x_t + (x_{s+h} - x_s). The law of the
# noise gives the likelihood of f under each, P(f | x_i), clipping and rounding included; quantiles
# are those of the x_i with these weights. Where no x_i explains f, it stands for itself.

# Prices this near, in units of the on-demand price, are one.
PRICE_WIDTH = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorForecaster:
    """A noisy forecaster's points, with quantiles.

    Attributes:
        noisy: whose points, and whose law of noise.
        memory: slots of the past that are looked at.
    """

    noisy: NoisyForecaster
    memory: int = 480

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        noisy = self.noisy
        points = noisy.forecast(past, num_slots)
        first = max(past.num_slots - self.memory, 0)
        prices = past.price[first:]
        counts = past.available[first:].astype(np.float64)
        of_price = np.empty((num_slots, len(LEVELS)))
        of_count = np.empty((num_slots, len(LEVELS)))
        for h in range(num_slots):
            f, g = float(points.price[h]), float(points.available[h])
            likely = np.maximum(_likely(prices, h + 1), 0.0)
            lower = -np.inf if f == 0 else f - PRICE_WIDTH / 2
            weight = _mass(
                noisy.noise, likely, noisy.price_scale(likely), lower, f + PRICE_WIDTH / 2
            )
            of_price[h] = _quantiles(likely, weight, f)
            likely = np.clip(_likely(counts, h + 1), 0.0, noisy.cap)
            lower = -np.inf if g == 0 else g - 0.5
            upper = np.inf if g == noisy.cap else g + 0.5
            weight = _mass(noisy.noise, likely, noisy.count_scale(likely), lower, upper)
            of_count[h] = _quantiles(likely, weight, g)
        return Forecast(
            points.price, points.available, np.array(LEVELS), of_price, of_count.astype(np.int64)
        )


def _likely(seen: Floats, ahead: int) -> Floats:
    """[i] today's value, and it with each change over `ahead` slots that was seen."""
    changes = seen[ahead:] - seen[:-ahead]
    return np.asarray(seen[-1] + np.concatenate(([0.0], changes)))


def _mass(noise: Noise, values: Floats, scale: Floats, lower: float, upper: float) -> Floats:
    """[i] P(lower < x_i + s xi <= upper)."""
    flat = scale <= 0
    safe = np.where(flat, 1.0, scale)
    mass = noise.below((upper - values) / safe) - noise.below((lower - values) / safe)
    return np.asarray(np.where(flat, (lower < values) & (values <= upper), mass))


def _quantiles(values: Floats, weight: Floats, point: float) -> Floats:
    """[q] weighted quantiles; the point where nothing has weight."""
    total = weight.sum()
    if total <= 0:
        return np.full(len(LEVELS), point)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / total
    at = np.minimum(np.searchsorted(reached, LEVELS), len(values) - 1)
    return values[order][at]
