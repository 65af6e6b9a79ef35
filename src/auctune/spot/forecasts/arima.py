"""ARIMA: each series by itself, orders chosen by AICc (statsforecast's AutoARIMA).

Hyndman and Khandakar, "Automatic time series forecasting" (Journal of Statistical Software 27(3),
2008). Choosing orders takes a third of a second, passing a series through a chosen model some
milliseconds. So orders and coefficients are fitted anew only every `refit` slots, on the `memory`
slots before; in between, the model at hand is run forward over what has been seen since. What a
forecast says depends on the past alone and not on which forecasts were made before.

Counts and prices are not Gaussian, and the model does not know their bounds: points and quantiles
are cut to prices >= 0 and whole counts within 0 and the cap. Until there are `least` slots of past
the last slot stands for all to come; so it does for a series that had not changed by the last fit,
of which a model would expect to go back to what it was.

statsforecast comes with the extra `spot` and is loaded at the first forecast.
"""

import hashlib
import warnings
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.extras import install_command
from auctune.numerics.arrays import Floats
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.forecasts.naive import LEVELS, SeasonalNaive, whole
from auctune.spot.market import SpotMarket

# Of central intervals, in per cent: their ends are the quantiles 0.1, 0.3, 0.7 and 0.9.
_INTERVALS = (40, 80)


@dataclass(frozen=True, slots=True)
class Arima:
    """AutoARIMA on price and on count.

    Attributes:
        cap: the most spot GPUs there can be; None: no bound.
        season: slots of a season; 1: none. A season of 48 makes a fit take 8 seconds.
        refit: slots from one fit to the next.
        memory: slots of the past that a fit looks at.
        least: slots of the past without which nothing is fitted.
    """

    cap: int | None = None
    season: int = 1
    refit: int = 48
    memory: int = 480
    least: int = 48
    _fitted: dict[bytes, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.cap is not None and self.cap < 0:
            raise InputError("cap", f"{self.cap!r}", "a whole number >= 0")
        for name in ("season", "refit"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 1")
        if self.least < 2 * self.season + 10:
            expected = f"a whole number >= 2 season + 10 = {2 * self.season + 10}"
            raise InputError("least", f"{self.least!r}", expected)
        if self.memory < self.least:
            raise InputError("memory", f"{self.memory!r}", f"a whole number >= {self.least}, least")

    @property
    def description(self) -> str:
        """All that its forecasts depend on, besides the past.

        Raises:
            InputError: if statsforecast is not installed.
        """
        try:
            return f"{self!r}, statsforecast {version('statsforecast')}"
        except PackageNotFoundError:
            raise _not_installed() from None

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        """Return the slots to come, as the models see them.

        Raises:
            InputError: if statsforecast is not installed.
        """
        if past.num_slots < self.least:
            return SeasonalNaive(1, self.cap).forecast(past, num_slots)
        price = self._series(past.price, num_slots)
        count = self._series(past.available.astype(np.float64), num_slots)
        return Forecast(
            np.maximum(price[:, 2], 0.0),
            whole(count[:, 2], self.cap),
            np.array(LEVELS),
            np.maximum(price, 0.0),
            whole(count, self.cap),
        )

    def _series(self, seen: Floats, num_slots: int) -> Floats:
        """[h, q] quantiles; the mean of a Gaussian is its median."""
        recent = seen[-self.memory :]
        model = self._model(seen)
        if model is None:
            return np.full((num_slots, len(LEVELS)), recent[-1])
        made = model.forward(recent, h=num_slots, level=list(_INTERVALS))
        ends = [made[key] for key in ("lo-80", "lo-40", "mean", "hi-40", "hi-80")]
        quantiles = np.stack([np.asarray(end, dtype=np.float64) for end in ends], axis=1)
        assert np.isfinite(quantiles).all()
        return quantiles

    def _model(self, seen: Floats) -> Any:
        """The model fitted last, on what had been seen by then; None if that never changed."""
        fitted_at = max(len(seen) // self.refit * self.refit, self.least)
        learnt = seen[max(fitted_at - self.memory, 0) : fitted_at]
        if learnt.min() == learnt.max():
            return None
        key = hashlib.blake2b(learnt.tobytes(), digest_size=16).digest()
        if key not in self._fitted:
            self._fitted[key] = _fit(learnt, self.season)
        return self._fitted[key]


def _fit(learnt: Floats, season: int) -> Any:
    try:
        from statsforecast.models import AutoARIMA
    except ImportError:
        raise _not_installed() from None
    with warnings.catch_warnings():
        # Candidates whose likelihood did not converge are compared like the others.
        warnings.filterwarnings("ignore", message="possible convergence problem")
        return AutoARIMA(season_length=season).fit(learnt)


def _not_installed() -> InputError:
    return InputError("forecaster", "ARIMA needs statsforecast", install_command("spot"))
