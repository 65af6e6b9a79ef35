"""Forecasts for a run: made in each slot from what was seen until then, history included."""

from collections.abc import Callable, Sequence

import numpy as np

from auctune.spot.forecasts.forecast import Forecast, Forecaster
from auctune.spot.market import SpotMarket
from auctune.spot.policy import SpotObservation

Foresee = Callable[[list[SpotObservation], SpotObservation], Forecast | None]
"""Observations of the slots before, and of the present one without a forecast -> its forecast."""


class Foresight:
    """What a policy gets to see of the time to come.

    Args:
        forecaster: that makes the forecasts.
        history: slots before the job's first; none: the past begins with the job.
        horizon: slots ahead that the policy wants; none: all up to the deadline.
        deadline: after which nothing matters, in slots.
    """

    def __init__(
        self,
        forecaster: Forecaster,
        history: SpotMarket | None,
        horizon: int | None,
        deadline: int,
    ) -> None:
        self._forecaster = forecaster
        self._history = history
        self._horizon = horizon
        self._deadline = deadline

    def __call__(
        self, before: Sequence[SpotObservation], present: SpotObservation
    ) -> Forecast | None:
        """The forecast of the slots after the present one; none if none of them matters."""
        ahead = self._deadline - 1 - present.slot
        if self._horizon is not None:
            ahead = min(ahead, self._horizon)
        return self._forecaster.forecast(self._past([*before, present]), ahead) if ahead else None

    def _past(self, seen: Sequence[SpotObservation]) -> SpotMarket:
        price = np.array([observation.price for observation in seen])
        available = np.array([observation.available for observation in seen])
        if self._history is not None:
            price = np.concatenate([self._history.price, price])
            available = np.concatenate([self._history.available, available])
        return SpotMarket(price, available, seen[-1].on_demand_price)


class NoForesight:
    """For policies that want no forecast."""

    def __call__(
        self, before: Sequence[SpotObservation], present: SpotObservation
    ) -> Forecast | None:
        """None."""
        return None
