"""Forecasts of one market made once a slot, however often they are asked for."""

from auctune.spot import SpotMarket
from auctune.spot.forecasts import Forecast, Forecaster


class SharedForecasts:
    """The forecasts made in each slot of a market, in memory.

    Args:
        forecaster: sees, for each slot, the market up to and with it, and nothing after.
        market: the whole series.
        horizon: slots ahead.
    """

    def __init__(self, forecaster: Forecaster, market: SpotMarket, horizon: int) -> None:
        self._forecaster, self._market, self._horizon = forecaster, market, horizon
        self._made: dict[int, Forecast] = {}

    def at(self, slot: int) -> Forecast:
        """The forecast made in a slot."""
        if slot not in self._made:
            past = self._market.until(slot)
            self._made[slot] = self._forecaster.forecast(past, self._horizon)
        return self._made[slot]

    def keep(self) -> None:
        """Nothing to do: they are quicker made than read."""
