"""Forecasts of a spot market."""

from auctune.spot.forecasts.arima import Arima
from auctune.spot.forecasts.forecast import Forecast, Forecaster, check_forecast, point_forecast
from auctune.spot.forecasts.noise import Fixed, HeavyTailedNoise, Proportional, UniformNoise
from auctune.spot.forecasts.noisy import NoisyForecaster
from auctune.spot.forecasts.perfect import PerfectForecaster
from auctune.spot.forecasts.posterior import PosteriorForecaster
from auctune.spot.forecasts.seasonal import SeasonalNaive
from auctune.spot.forecasts.table import ForecastTable, make_forecasts, stack_forecasts

__all__ = [
    "Arima",
    "Fixed",
    "Forecast",
    "ForecastTable",
    "Forecaster",
    "HeavyTailedNoise",
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
