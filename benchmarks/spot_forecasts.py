"""Accuracy, cost and value of forecasts of real spot markets: tables in Markdown.

    python benchmarks/spot_forecasts.py FOLDER_OF_MARKET_FILES CACHE

FOLDER holds the files of the benchmark market (docs/explanation/spot-data.md). Errors are means
over its 40 markets, by half-hours ahead, without the first two days of each. The value of forecasts
is the mean utility of 1,000 jobs (d = 10, L uniform in [60, 100], N_min in {1, 2, 4}, N_max in
{8, 12, 16}) over the optimum's.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from auctune.numerics.rng import stream
from auctune.sim.spot.accuracy import Accuracy, measure_accuracy
from auctune.sim.spot.forecasts import forecasts_of_job, market_forecasts
from auctune.sim.spot.trials import CAP, benchmark_markets, draw_starts
from auctune.spot import (
    OnDemandOnly,
    Robust,
    SpotFirst,
    SpotJob,
    SpotMarket,
    UniformProgress,
    default_pool,
    offline_optimum,
    play_batch,
)
from auctune.spot.forecasts import (
    Arima,
    ForecastTable,
    PerfectForecaster,
    SeasonalNaive,
    make_forecasts,
)

HORIZON = 9
SHOWN = (1, 2, 3, 5, 9)
NUM_JOBS, DEADLINE = 1000, 10
KINDS = ("available", "available_rms", "available_pinball", "price", "price_rms", "price_pinball")


def main(folder: Path, cache: Path) -> None:
    markets = [named.market for named in benchmark_markets(folder)]
    tables = {}
    for name, maker in makers(cache).items():
        start = time.perf_counter()
        tables[name] = [maker(market) for market in markets]
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    perfect = tables.pop("perfect")
    accuracies = {name: measure_accuracy(table, markets) for name, table in tables.items()}
    for kind in KINDS:
        print_errors(kind, accuracies)
    print_utilities(markets, tables | {"perfect": perfect})


def makers(cache: Path) -> dict[str, Callable[[SpotMarket], ForecastTable]]:
    """Return functions that forecast every slot of a market, by the forecaster's name."""

    def naive(season: int) -> Callable[[SpotMarket], ForecastTable]:
        forecaster = SeasonalNaive(season, CAP)
        return lambda market: make_forecasts(forecaster, market, 0, market.num_slots, HORIZON)

    def perfect(market: SpotMarket) -> ForecastTable:
        return make_forecasts(PerfectForecaster(market), market, 0, market.num_slots, HORIZON)

    arima = Arima(cap=CAP)
    return {
        "last value": naive(1),
        "seasonal naive": naive(48),
        "ARIMA": lambda market: market_forecasts(arima, market, HORIZON, cache),
        "perfect": perfect,
    }


def print_errors(kind: str, accuracies: dict[str, Accuracy]) -> None:
    print(f"| {kind} | " + " | ".join(f"{ahead} ahead" for ahead in SHOWN) + " |")
    print("| --- |" + " --- |" * len(SHOWN))
    digits = 2 if kind.startswith("available") else 5
    for name, accuracy in accuracies.items():
        errors = getattr(accuracy, kind)
        shown = " | ".join(f"{errors[ahead - 1]:.{digits}f}" for ahead in SHOWN)
        print(f"| {name} | {shown} |", flush=True)
    print()


def print_utilities(markets: list[SpotMarket], tables: dict[str, list[ForecastTable]]) -> None:
    """Print the utility of the best of the paper's 105 AHAP policies, and of other policies."""
    starts = draw_starts(markets, NUM_JOBS, DEADLINE)
    jobs = draw_jobs()
    windows = [markets[at.market].between(at.slot, at.slot + DEADLINE) for at in starts]
    optimum = sum(offline_optimum(*pair).utility for pair in zip(jobs, windows, strict=True))
    pool = (*default_pool()[:105], Robust(risk=1.0), SpotFirst(), UniformProgress(), OnDemandOnly())
    print("| utility / optimum | best AHAP | robust | MSU | UP | OD-Only |")
    print("| --- |" + " --- |" * 5)
    for name, table in tables.items():
        forecasts = [forecasts_of_job(table[at.market], at.slot, DEADLINE) for at in starts]
        shares = play_batch(pool, jobs, windows, forecasts).utility.sum(axis=0) / optimum
        top = int(shares[:105].argmax())
        others = " | ".join(f"{share:.3f}" for share in shares[105:])
        print(f"| {name} | {shares[top]:.3f}, {pool[top].name} | {others} |", flush=True)


def draw_jobs() -> list[SpotJob]:
    random = stream(0, "jobs")
    return [
        SpotJob(
            workload=float(random.integers(60, 101)),
            deadline=DEADLINE,
            n_min=int(random.choice([1, 2, 4])),
            n_max=int(random.choice([8, 12, 16])),
        )
        for _ in range(NUM_JOBS)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
