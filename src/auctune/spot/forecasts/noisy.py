"""Perfect foresight, plus noise of a known law."""

from dataclasses import dataclass

import numpy as np

from auctune.numerics.rng import stream
from auctune.spot.arrays import Floats
from auctune.spot.forecasts.forecast import Forecast, point_forecast
from auctune.spot.forecasts.noise import Magnitude, Noise
from auctune.spot.forecasts.perfect import what_comes
from auctune.spot.forecasts.seasonal import whole
from auctune.spot.market import SpotMarket


@dataclass(frozen=True, slots=True, eq=False)
class NoisyForecaster:
    """The truth plus s(x) xi: prices at least 0, counts whole and within the cap.

    Points alone; `auctune.spot.forecasts.posterior` makes quantiles of them. The noise of a slot
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
        """What will be, blurred."""
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
