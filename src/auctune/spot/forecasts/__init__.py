"""Forecasts of a spot market."""

from auctune.spot.forecasts.arima import Arima
from auctune.spot.forecasts.chain import MarkovChain
from auctune.spot.forecasts.forecast import (
    Forecast,
    Forecaster,
    ForecastTable,
    MarketChain,
    check_forecast,
    make_forecasts,
    point_forecast,
    stack_forecasts,
)
from auctune.spot.forecasts.naive import PerfectForecaster, SeasonalNaive
from auctune.spot.forecasts.noise import (
    Fixed,
    HeavyTailedNoise,
    NoisyForecaster,
    PosteriorForecaster,
    Proportional,
    UniformNoise,
)

__all__ = [
    "Arima",
    "Fixed",
    "Forecast",
    "ForecastTable",
    "Forecaster",
    "HeavyTailedNoise",
    "MarketChain",
    "MarkovChain",
    "NoisyForecaster",
    "PerfectForecaster",
    "PosteriorForecaster",
    "Proportional",
    "SeasonalNaive",
    "UniformNoise",
    "check_forecast",
    "make_forecasts",
    "point_forecast",
    "stack_forecasts",
]
