"""One job begun at many moments of some markets, with the forecasts that were made for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from auctune.sim.spot.benchmark import Start
from auctune.sim.spot.forecast_cache import DescribedForecaster, KeptForecasts
from auctune.sim.spot.foretelling import Foretelling
from auctune.sim.spot.shared_forecasts import SharedForecasts
from auctune.spot import Policy, SpotJob, SpotMarket
from auctune.spot.forecasts import ForecastTable, stack_forecasts

Advance = Callable[[], None]
"""Told of each job whose forecasts are made."""


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """What policies are tried on; j trials.

    Attributes:
        job: the same in all, or what they vary.
        starts: [j] where each begins.
        markets: [j] the slots of each, its first one 0.
        forecasts: [j] made in those slots, from all that was before; none where nobody looks.
        varied: [j] jobs with the same deadline; none: the job itself.
    """

    job: SpotJob
    starts: tuple[Start, ...]
    markets: tuple[SpotMarket, ...]
    forecasts: tuple[ForecastTable | None, ...]
    varied: tuple[SpotJob, ...] = ()

    @property
    def num_trials(self) -> int:
        """j."""
        return len(self.starts)

    @property
    def jobs(self) -> list[SpotJob]:
        """[j] the job of each."""
        return list(self.varied) or [self.job] * self.num_trials

    @property
    def highest_price(self) -> float:
        """p_max, that no spot price of any trial passes."""
        return max(float(market.price.max()) for market in self.markets)


def make_trials(
    job: SpotJob,
    markets: Sequence[SpotMarket],
    starts: Sequence[Start],
    foretelling: Foretelling,
    policies: Sequence[Policy],
    *,
    seed: int = 0,
    cache: Path | None = None,
    advance: Advance | None = None,
) -> Trials:
    """Cut the markets, and have forecasts made as far as the policies look.

    Args:
        job: to be tried.
        markets: all their slots.
        starts: where it is tried.
        foretelling: how to forecast.
        policies: that will be tried.
        seed: of noise.
        cache: folder for the forecasts of those that are slow; none: they are not kept.
        advance: told after each trial's forecasts.

    Raises:
        InputError: if a market does not reach as far as the job, a forecaster is not there, or
            the cache cannot be written.
    """
    cut = [markets[start.market].between(start.slot, start.slot + job.deadline) for start in starts]
    horizon = widest_horizon(policies, job)
    forecasts: list[ForecastTable | None] = [None] * len(starts)
    if horizon:
        made = {
            number: _forecasts_of(foretelling, markets[number], seed, horizon, cache)
            for number in sorted({start.market for start in starts})
        }
        for index, start in enumerate(starts):
            slots = range(start.slot, start.slot + job.deadline)
            forecasts[index] = stack_forecasts([made[start.market].at(slot) for slot in slots])
            if advance is not None:
                advance()
        for one in made.values():
            one.keep()
    return Trials(job, tuple(starts), tuple(cut), tuple(forecasts))


def _forecasts_of(
    foretelling: Foretelling, market: SpotMarket, seed: int, horizon: int, cache: Path | None
) -> SharedForecasts:
    forecaster = foretelling.forecaster(market, seed)
    # Who says what its forecasts depend on is slow.
    if cache is not None and isinstance(forecaster, DescribedForecaster):
        return KeptForecasts(forecaster, market, horizon, cache)
    return SharedForecasts(forecaster, market, horizon)


def widest_horizon(policies: Sequence[Policy], job: SpotJob) -> int:
    """Slots ahead that any of the policies may ask for."""
    last = job.deadline - 1
    return max(
        (last if policy.horizon is None else min(policy.horizon, last) for policy in policies),
        default=0,
    )
