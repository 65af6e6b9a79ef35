"""Forecasts of price and count, of one slot and of all slots of a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.numerics.arrays import Floats, Ints
from auctune.spot.market import SpotMarket


class MarketChain(NamedTuple):
    """A Markov chain of the market, as it is thought to go on.

    Attributes:
        price, available: [i] of a slot in state i.
        transition: [i, j] probability of state j in the slot after state i.
        present: state of the slot in which the forecast is made.
        worst: [i, j] transitions of the worst market that the past leaves likely, for the risk of
            being late; None: `transition` is known.
    """

    price: Floats
    available: Ints
    transition: Floats
    present: int
    worst: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Spot prices and counts of the next slots; row h is h + 1 slots ahead.

    Attributes:
        price: [h] point forecast, >= 0, in units of the on-demand price.
        available: [h] point forecast, whole and >= 0.
        levels: [q] rising levels within (0, 1); empty where there are point forecasts alone.
        price_quantiles: [h, q].
        available_quantiles: [h, q] whole.
        chain: the joint law of all slots to come, where the forecaster has one.
    """

    price: Floats
    available: Ints
    levels: Floats
    price_quantiles: Floats
    available_quantiles: Ints
    chain: MarketChain | None = None

    def __post_init__(self) -> None:
        shape = (len(self.price), len(self.levels))
        if not (
            self.available.shape == self.price.shape
            and self.price_quantiles.shape == self.available_quantiles.shape == shape
        ):
            raise InputError(
                "forecast",
                f"{self.price.shape}, {self.available.shape}, {self.price_quantiles.shape} and "
                f"{self.available_quantiles.shape}",
                "[h], [h], [h, q] and [h, q]",
            )

    @property
    def num_slots(self) -> int:
        return len(self.price)


def same_chain(one: MarketChain, other: MarketChain | None) -> bool:
    """Return whether two chains are the same, whatever the present state."""
    if other is None or one.transition is other.transition:
        return other is not None
    mine, its = [chain.transition if chain.worst is None else chain.worst for chain in (one, other)]
    return np.array_equal(mine, its) and all(map(np.array_equal, one[:3], other[:3]))


class Forecaster(Protocol):
    """Says what is likely, from what has been seen."""

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        """Forecast the `num_slots` slots after `past`, whose last slot is the present one."""
        ...


def point_forecast(price: Floats, available: Ints) -> Forecast:
    """Return a forecast without quantiles."""
    empty = np.empty((len(price), 0))
    return Forecast(price, available, np.empty(0), empty, empty.astype(np.int64))


def check_forecast(forecast: Forecast | None, num_slots: int) -> Forecast:
    """Return the forecast, if it reaches `num_slots` ahead.

    Raises:
        InputError: naming `forecast`.
    """
    if forecast is None:
        raise InputError("forecast", "none is given", f"one of {num_slots} slots")
    if forecast.num_slots < num_slots:
        raise InputError(
            "forecast", f"{forecast.num_slots} slots ahead", f"one of {num_slots} slots"
        )
    return forecast


@dataclass(frozen=True, slots=True, eq=False)
class ForecastTable:
    """Forecasts made in the slots of a job; row [t, h] is of slot t + 1 + h, made in slot t.

    Attributes:
        price: [t, h].
        available: [t, h].
        levels: [q].
        price_quantiles: [t, h, q].
        available_quantiles: [t, h, q].
        chains: [t] where the forecaster has them.
    """

    price: Floats
    available: Ints
    levels: Floats
    price_quantiles: Floats
    available_quantiles: Ints
    chains: tuple[MarketChain | None, ...] = ()

    def at(self, slot: int) -> Forecast:
        """Return the forecast made in a slot."""
        return Forecast(
            self.price[slot],
            self.available[slot],
            self.levels,
            self.price_quantiles[slot],
            self.available_quantiles[slot],
            self.chains[slot] if self.chains else None,
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
    """Return the table of forecasts of one forecaster, one a slot, all as far ahead."""
    return ForecastTable(
        price=np.stack([forecast.price for forecast in made]),
        available=np.stack([forecast.available for forecast in made]),
        levels=made[0].levels,
        price_quantiles=np.stack([forecast.price_quantiles for forecast in made]),
        available_quantiles=np.stack([forecast.available_quantiles for forecast in made]),
        chains=tuple(forecast.chain for forecast in made),
    )
