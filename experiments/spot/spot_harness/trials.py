"""Jobs that begin anywhere in some markets, and what policies make of them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from auctune.numerics.arrays import Floats
from auctune.numerics.experts import UtilityScale
from auctune.numerics.rng import stream
from auctune.sim.spot.forecasts import forecasts_of_job
from auctune.sim.spot.trials import Start, draw_starts
from auctune.spot import (
    BatchOutcome,
    Policy,
    SpotJob,
    SpotMarket,
    least_utility,
    offline_optimum,
    play_batch,
)
from auctune.spot.forecasts import Forecaster, ForecastTable, PerfectForecaster, make_forecasts
from spot_harness.markets import Markets

# The widest window of the paper's pool; the slot at hand is seen.
HORIZON = 5
MakeForecaster = Callable[[SpotMarket], Forecaster]


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """Jobs and where they begin; j jobs.

    Attributes:
        markets: all their slots.
        jobs: [j].
        starts: [j].
    """

    markets: Markets
    jobs: tuple[SpotJob, ...]
    starts: tuple[Start, ...]

    def seen(self) -> list[SpotMarket]:
        """[j] the slots of each job."""
        return [
            self.markets.markets[at.market].between(at.slot, at.slot + job.deadline)
            for at, job in zip(self.starts, self.jobs, strict=True)
        ]

    def forecasts(self, tables: Sequence[ForecastTable]) -> list[ForecastTable]:
        """[j] of those made in every slot of each market."""
        return [
            forecasts_of_job(tables[at.market], at.slot, job.deadline)
            for at, job in zip(self.starts, self.jobs, strict=True)
        ]

    def predicted(self, make: MakeForecaster, horizon: int = HORIZON) -> list[ForecastTable]:
        """[j] made in the slots of the jobs alone."""
        by_market = [make(market) for market in self.markets.markets]
        return [
            make_forecasts(
                by_market[at.market],
                self.markets.markets[at.market],
                at.slot,
                job.deadline,
                horizon,
            )
            for at, job in zip(self.starts, self.jobs, strict=True)
        ]

    def optimum(self, *, on_time: bool = False) -> Floats:
        """[j] the most utility there was to have; `on_time`: without being late."""
        best = partial(offline_optimum, on_time=on_time)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return np.array([one.utility for one in threads.map(best, self.jobs, self.seen())])

    def utility(self, policies: Sequence[Policy], tables: Sequence[ForecastTable]) -> Floats:
        """[j, m] of each job under each policy, with forecasts made in every slot."""
        return self.played(policies, self.forecasts(tables))

    def played(self, policies: Sequence[Policy], forecasts: Sequence[ForecastTable]) -> Floats:
        """[j, m] of each job under each policy, with the forecasts of each job."""
        return self.outcome(policies, forecasts).utility

    def outcome(
        self, policies: Sequence[Policy], forecasts: Sequence[ForecastTable | None]
    ) -> BatchOutcome:
        """[j, m] what comes of each job under each policy."""
        return play_batch(policies, self.jobs, self.seen(), forecasts)

    def first(self, num_jobs: int) -> "Trials":
        """The first of these jobs."""
        return Trials(self.markets, self.jobs[:num_jobs], self.starts[:num_jobs])

    def scale(self) -> UtilityScale:
        """Bounds of any utility of these jobs, fixed before the first."""
        highest = max(float(market.price.max()) for market in self.markets.markets)
        return UtilityScale(
            min(least_utility(job, highest) for job in self.jobs),
            max(float(job.value) for job in self.jobs),
        )


def same_job(markets: Markets, job: SpotJob, num_jobs: int, seed: int) -> Trials:
    """One job begun many times."""
    starts = draw_starts(markets.markets, num_jobs, job.deadline, seed=seed)
    return Trials(markets, (job,) * num_jobs, starts)


def drawn_jobs(markets: Markets, num_jobs: int, seed: int) -> Trials:
    """The jobs of Figure 9: L uniform in [60, 100], N_min in {1, 2, 4}, N_max in {8, 12, 16}."""
    random = stream(seed, "jobs")
    jobs = tuple(
        SpotJob(
            # Whole, so that work lies on a grid.
            workload=float(random.integers(60, 101)),
            deadline=10,
            n_min=int(random.choice([1, 2, 4])),
            n_max=int(random.choice([8, 12, 16])),
        )
        for _ in range(num_jobs)
    )
    return Trials(markets, jobs, draw_starts(markets.markets, num_jobs, 10, seed=seed))


def tables_of(
    markets: Markets, make: MakeForecaster, horizon: int = HORIZON
) -> list[ForecastTable]:
    """Forecasts made in every slot of each market."""
    return [
        make_forecasts(make(market), market, 0, market.num_slots, horizon)
        for market in markets.markets
    ]


def perfect_tables(markets: Markets, horizon: int = HORIZON) -> list[ForecastTable]:
    """Perfect foresight."""
    return tables_of(markets, PerfectForecaster, horizon)
