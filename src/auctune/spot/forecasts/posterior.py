"""Quantiles of noisy forecasts: what was likely before, weighed by what the forecast says.

Before the forecast f of slot t + h is heard, the values x_i likely there are today's value and the
changes over h slots that the past has seen: x_i = x_t + (x_{s+h} - x_s). The law of the noise
gives the likelihood of f under each, P(f | x_i), clipping and rounding included; quantiles are
those of the x_i with these weights. Where no x_i explains f, it stands for itself.
"""

from dataclasses import dataclass

import numpy as np

from auctune.spot.arrays import Floats
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.forecasts.noise import Noise
from auctune.spot.forecasts.noisy import NoisyForecaster
from auctune.spot.forecasts.perfect import LEVELS
from auctune.spot.market import SpotMarket

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
        """The noisy forecast, and what it makes likely."""
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
