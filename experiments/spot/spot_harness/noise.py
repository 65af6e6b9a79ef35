"""The paper's four kinds of noise on forecasts."""

from collections.abc import Mapping
from dataclasses import dataclass

from auctune.spot import SpotMarket
from auctune.spot.forecasts import (
    Fixed,
    HeavyTailedNoise,
    NoisyForecaster,
    Proportional,
    UniformNoise,
)
from spot_harness.markets import CAP


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """A law of noise, of any magnitude.

    Attributes:
        fixed: whether its magnitude is of the series' mean, not of the value.
        heavy: whether it is Student's t with two degrees of freedom, clipped at 5; else uniform.
    """

    fixed: bool
    heavy: bool

    def forecaster(self, market: SpotMarket, error: float, seed: int) -> NoisyForecaster:
        """The truth with noise; `error` is 0.3 for 30%."""
        size = Fixed(error) if self.fixed else Proportional(error)
        law = HeavyTailedNoise() if self.heavy else UniformNoise()
        return NoisyForecaster(market, size, law, CAP, seed)


KINDS: Mapping[str, NoiseKind] = {
    "magnitude-dependent, uniform": NoiseKind(fixed=False, heavy=False),
    "fixed magnitude, uniform": NoiseKind(fixed=True, heavy=False),
    "magnitude-dependent, heavy-tailed": NoiseKind(fixed=False, heavy=True),
    "fixed magnitude, heavy-tailed": NoiseKind(fixed=True, heavy=True),
}
