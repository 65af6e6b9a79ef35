"""One job begun at many moments of some markets, with the forecasts that were made for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auctune.sim.spot.benchmark import Start
from auctune.sim.spot.foretelling import Foretelling
from auctune.spot import Policy, SpotJob, SpotMarket
from auctune.spot.forecasts import Forecast, Forecaster, ForecastTable, stack_forecasts

Advance = Callable[[], None]
"""Told of each job whose forecasts are made."""


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """What policies are tried on; j trials.

    Attributes:
        job: the same in all.
        starts: [j] where each begins.
        markets: [j] the slots of each, its first one 0.
        forecasts: [j] made in those slots, from all that was before; none where nobody looks.
    """

    job: SpotJob
    starts: tuple[Start, ...]
    markets: tuple[SpotMarket, ...]
    forecasts: tuple[ForecastTable | None, ...]

    @property
    def num_trials(self) -> int:
        """j."""
        return len(self.starts)

    @property
    def jobs(self) -> list[SpotJob]:
        """[j] the job, as often as it is tried."""
        return [self.job] * self.num_trials

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
        advance: told after each trial's forecasts.

    Raises:
        InputError: if a market does not reach as far as the job, or a forecaster is not there.
    """
    cut = [markets[start.market].between(start.slot, start.slot + job.deadline) for start in starts]
    horizon = widest_horizon(policies, job)
    forecasts: list[ForecastTable | None] = [None] * len(starts)
    if horizon:
        forecasters = [foretelling.forecaster(market, seed) for market in markets]
        share = _SharedForecasts(markets, forecasters, horizon)
        for index, start in enumerate(starts):
            forecasts[index] = share.of_job(start, job.deadline)
            if advance is not None:
                advance()
    return Trials(job, tuple(starts), tuple(cut), tuple(forecasts))


class _SharedForecasts:
    """Forecasts made once a slot, however many trials go through it."""

    def __init__(
        self, markets: Sequence[SpotMarket], forecasters: Sequence[Forecaster], horizon: int
    ) -> None:
        self._markets, self._forecasters, self._horizon = markets, forecasters, horizon
        self._made: dict[Start, Forecast] = {}

    def of_job(self, start: Start, num_slots: int) -> ForecastTable:
        slots = range(start.slot, start.slot + num_slots)
        return stack_forecasts([self._of_slot(Start(start.market, slot)) for slot in slots])

    def _of_slot(self, at: Start) -> Forecast:
        if at not in self._made:
            past = self._markets[at.market].until(at.slot)
            self._made[at] = self._forecasters[at.market].forecast(past, self._horizon)
        return self._made[at]


def widest_horizon(policies: Sequence[Policy], job: SpotJob) -> int:
    """Slots ahead that any of the policies may ask for."""
    last = job.deadline - 1
    return max(
        (last if policy.horizon is None else min(policy.horizon, last) for policy in policies),
        default=0,
    )
