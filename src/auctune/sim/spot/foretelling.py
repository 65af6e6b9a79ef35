"""Forecasters by name and settings, as the command line gives them.

| name | what | settings |
| --- | --- | --- |
| perfect | knows the market | none |
| seasonal | the last season again | season |
| arima | ARIMA, with the extra `spot` | season, refit, memory, least |
| noisy | the truth and noise of a known law, with the quantiles that they leave likely | error, \
magnitude, noise, clip |

No count is ever thought to pass the most that a market has had.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from auctune.domain import InputError
from auctune.domain.checks import check_finite
from auctune.parameter_text import parse_label, parse_params
from auctune.spot.forecasts import (
    Arima,
    Fixed,
    Forecaster,
    HeavyTailedNoise,
    NoisyForecaster,
    PerfectForecaster,
    PosteriorForecaster,
    Proportional,
    SeasonalNaive,
    UniformNoise,
)
from auctune.spot.market import SpotMarket


class Foretelling(Protocol):
    """A way to forecast, before a market is known."""

    @property
    def knows_future(self) -> bool:
        """Whether it looks at what is to come."""
        ...

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        """A forecaster for one market.

        Args:
            market: its slots; those to come are read only by who knows the future.
            seed: of noise.
        """
        ...


@dataclass(frozen=True, slots=True)
class Perfect:
    """Perfect foresight."""

    knows_future = True

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        """See `Foretelling`."""
        return PerfectForecaster(market)


@dataclass(frozen=True, slots=True)
class Seasonal:
    """Seasonal naive.

    Attributes:
        season: in slots; none: a day.
    """

    season: int | None = None

    knows_future = False

    def __post_init__(self) -> None:
        if self.season is not None and self.season < 1:
            raise InputError("season", f"{self.season!r}", "a whole number of slots >= 1")

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        """See `Foretelling`."""
        day = max(1, round(86_400 / market.slot_seconds))
        return SeasonalNaive(day if self.season is None else self.season, highest_count(market))


@dataclass(frozen=True, slots=True)
class ByArima:
    """ARIMA; the settings are those of `auctune.spot.forecasts.Arima`."""

    season: int = 1
    refit: int = 48
    memory: int = 480
    least: int = 48

    knows_future = False

    def __post_init__(self) -> None:
        Arima(None, self.season, self.refit, self.memory, self.least)

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        """See `Foretelling`."""
        cap = highest_count(market)
        made = Arima(cap, self.season, self.refit, self.memory, self.least)
        # Says at once if the extra is not there.
        assert made.description
        return made


@dataclass(frozen=True, slots=True)
class Noisy:
    """The truth and noise.

    Attributes:
        error: e, 0.3 for thirty per cent.
        magnitude: of the value itself, or of the series' mean.
        noise: uniform in [-1, 1], or Student's t with two degrees of freedom.
        clip: of the latter.
    """

    error: float = 0.3
    magnitude: Literal["proportional", "fixed"] = "proportional"
    noise: Literal["uniform", "heavy"] = "uniform"
    clip: float = 5.0

    knows_future = True

    def __post_init__(self) -> None:
        check_finite(self.error, "error", "a number >= 0")
        HeavyTailedNoise(self.clip)

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        """See `Foretelling`."""
        law = HeavyTailedNoise(self.clip) if self.noise == "heavy" else UniformNoise()
        size = Fixed(self.error) if self.magnitude == "fixed" else Proportional(self.error)
        return PosteriorForecaster(NoisyForecaster(market, size, law, highest_count(market), seed))


_KINDS: Mapping[str, type[Perfect | Seasonal | ByArima | Noisy]] = {
    "perfect": Perfect,
    "seasonal": Seasonal,
    "arima": ByArima,
    "noisy": Noisy,
}


def forecaster_names() -> tuple[str, ...]:
    """All that `parse_foretelling` knows."""
    return tuple(_KINDS)


def parse_foretelling(label: str, place: str) -> Foretelling:
    """The way to forecast of a text such as `noisy:error=0.3:noise=heavy`.

    Args:
        label: the text.
        place: as errors name it.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one.
    """
    name, settings = parse_label(label, place, "forecaster")
    if name not in _KINDS:
        offered = ", ".join(forecaster_names())
        raise InputError(place, f"{name!r} is not offered", f"one of {offered}")
    try:
        return parse_params(_KINDS[name], settings)
    except InputError as error:
        raise InputError(f"{place} {label}: {error.place}", error.found, error.expected) from None


def highest_count(market: SpotMarket) -> int:
    """The most spot GPUs that there ever were."""
    return int(market.available.max(initial=0))
