"""Observations and allocations as plain JSON values, and back, without loss."""

from typing import Any

import numpy as np

from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.policy import SpotAllocation, SpotObservation

Record = dict[str, Any]


def allocation_record(allocation: SpotAllocation) -> Record:
    """Both counts."""
    return {"on_demand": allocation.on_demand, "spot": allocation.spot}


def read_allocation(record: Record) -> SpotAllocation:
    """The allocation that `allocation_record` wrote."""
    return SpotAllocation(record["on_demand"], record["spot"])


def observation_record(observation: SpotObservation) -> Record:
    """All that a policy saw."""
    forecast = observation.forecast
    return {
        "slot": observation.slot,
        "price": observation.price,
        "available": observation.available,
        "available_before": observation.available_before,
        "on_demand_price": observation.on_demand_price,
        "progress": observation.progress,
        "cost": observation.cost,
        "last": allocation_record(observation.last),
        "forecast": None if forecast is None else _forecast_record(forecast),
    }


def read_observation(record: Record) -> SpotObservation:
    """The observation that `observation_record` wrote."""
    forecast = record["forecast"]
    return SpotObservation(
        **record
        | {
            "last": read_allocation(record["last"]),
            "forecast": None if forecast is None else _read_forecast(forecast),
        }
    )


def _forecast_record(forecast: Forecast) -> Record:
    return {
        "price": forecast.price.tolist(),
        "available": forecast.available.tolist(),
        "levels": forecast.levels.tolist(),
        "price_quantiles": forecast.price_quantiles.tolist(),
        "available_quantiles": forecast.available_quantiles.tolist(),
    }


def _read_forecast(record: Record) -> Forecast:
    levels = np.array(record["levels"], dtype=np.float64)
    shape = (len(record["price"]), len(levels))
    return Forecast(
        np.array(record["price"], dtype=np.float64),
        np.array(record["available"], dtype=np.int64),
        levels,
        np.array(record["price_quantiles"], dtype=np.float64).reshape(shape),
        np.array(record["available_quantiles"], dtype=np.int64).reshape(shape),
    )
