"""All forecasts of a job: made once, before each of its slots, and shared by all policies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain.checks import check_count
from auctune.spot.arrays import Floats, Ints
from auctune.spot.forecasts.forecast import Forecast, Forecaster
from auctune.spot.market import SpotMarket


@dataclass(frozen=True, slots=True, eq=False)
class ForecastTable:
    """Forecasts made in the slots of a job; row [t, h] is of slot t + 1 + h, made in slot t.

    Attributes:
        price: [t, h].
        available: [t, h].
        levels: [q].
        price_quantiles: [t, h, q].
        available_quantiles: [t, h, q].
    """

    price: Floats
    available: Ints
    levels: Floats
    price_quantiles: Floats
    available_quantiles: Ints

    def at(self, slot: int) -> Forecast:
        """The forecast made in a slot."""
        return Forecast(
            self.price[slot],
            self.available[slot],
            self.levels,
            self.price_quantiles[slot],
            self.available_quantiles[slot],
        )


def make_forecasts(
    forecaster: Forecaster, market: SpotMarket, start: int, num_slots: int, horizon: int
) -> ForecastTable:
    """Have all forecasts of a job made.

    Args:
        forecaster: sees, for each slot, the market up to and with it, and nothing after.
        market: the whole series.
        start: the job's first slot in it.
        num_slots: slots of the job, its deadline.
        horizon: slots ahead.

    Raises:
        InputError: if the market has not all the slots of the job, or there are none.
    """
    market.between(start, start + num_slots)
    check_count(num_slots, "num_slots", 1)
    made = [
        forecaster.forecast(market.until(slot), horizon) for slot in range(start, start + num_slots)
    ]
    return stack_forecasts(made)


def stack_forecasts(made: Sequence[Forecast]) -> ForecastTable:
    """The table of forecasts of one forecaster, one a slot, all as far ahead."""
    return ForecastTable(
        price=np.stack([forecast.price for forecast in made]),
        available=np.stack([forecast.available for forecast in made]),
        levels=made[0].levels,
        price_quantiles=np.stack([forecast.price_quantiles for forecast in made]),
        available_quantiles=np.stack([forecast.available_quantiles for forecast in made]),
    )
