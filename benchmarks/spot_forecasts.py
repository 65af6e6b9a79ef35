"""How good forecasts of real spot markets are, and how long they take: a table in Markdown.

    python benchmarks/spot_forecasts.py FOLDER_OF_MARKET_FILES CACHE

FOLDER holds the files of the benchmark market (docs/explanation/spot-data.md). Errors are means
over its 40 markets, by slots of half an hour ahead, the first two days of each left out.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from auctune.sim.spot.accuracy import Accuracy, measure_accuracy
from auctune.sim.spot.benchmark import CAP, benchmark_markets
from auctune.sim.spot.forecast_cache import market_forecasts
from auctune.spot import SpotMarket
from auctune.spot.forecasts import Arima, ForecastTable, SeasonalNaive, make_forecasts

HORIZON = 9
SHOWN = (1, 2, 3, 5, 9)

Maker = Callable[[SpotMarket], ForecastTable]


def main(folder: Path, cache: Path) -> None:
    markets = [named.market for named in benchmark_markets(folder)]
    arima = Arima(cap=CAP)

    def by_arima(market: SpotMarket) -> ForecastTable:
        return market_forecasts(arima, market, HORIZON, cache)

    def naive(season: int) -> Maker:
        forecaster = SeasonalNaive(season, CAP)
        return lambda market: make_forecasts(forecaster, market, 0, market.num_slots, HORIZON)

    for kind in (
        "available",
        "available_rms",
        "available_pinball",
        "price",
        "price_rms",
        "price_pinball",
    ):
        print(f"| {kind} | " + " | ".join(f"{ahead} ahead" for ahead in SHOWN) + " |")
        print("| --- |" + " --- |" * len(SHOWN))
        for name, maker in (
            ("last value", naive(1)),
            ("seasonal naive", naive(48)),
            ("ARIMA", by_arima),
        ):
            print_row(name, accuracy_of(name, maker, markets), kind)
        print()


_MEASURED: dict[str, Accuracy] = {}


def accuracy_of(name: str, maker: Maker, markets: list[SpotMarket]) -> Accuracy:
    if name not in _MEASURED:
        began = time.perf_counter()
        tables = [maker(market) for market in markets]
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
        _MEASURED[name] = measure_accuracy(tables, markets)
    return _MEASURED[name]


def print_row(name: str, accuracy: Accuracy, kind: str) -> None:
    errors = getattr(accuracy, kind)
    digits = 2 if kind.startswith("available") else 5
    shown = " | ".join(f"{errors[ahead - 1]:.{digits}f}" for ahead in SHOWN)
    print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
