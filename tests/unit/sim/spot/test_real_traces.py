"""The loaders on published records, where AUCTUNE_SPOT_DATA names the folder that holds them."""

import os
from pathlib import Path

import pytest

from auctune.numerics.goodness_of_fit import compare
from auctune.sim.spot.generator import (
    V100_COUNTS,
    V100_PRICES,
    fit_counts,
    fit_prices,
    generate_counts,
)
from auctune.sim.spot.series_figures import count_figures
from auctune.sim.spot.trace import (
    ON_DEMAND_V100,
    FromFile,
    MarketRecipe,
    in_units,
    read_market,
    read_trace,
    slot_counts,
    slot_prices,
    whole_slots,
)
from auctune.sim.spot.trials import CAP, COUNTS, PRICES, benchmark_markets, draw_starts
from auctune.spot.forecasts import Arima

# USD for an hour of one K80 on demand, us-east-1, 2020.
ON_DEMAND_K80 = 0.90
FOLDER = os.environ.get("AUCTUNE_SPOT_DATA")
DATA = Path(FOLDER or ".")

pytestmark = pytest.mark.skipif(FOLDER is None, reason="AUCTUNE_SPOT_DATA names no folder")


def test_every_file_is_read_and_has_the_lines_it_should() -> None:
    lines = {path.name: len(read_trace(path).t_s) for path in sorted(DATA.glob("*.csv"))}
    assert len(lines) == 20
    assert {count for name, count in lines.items() if "price" in name} == {2160}
    assert {count for name, count in lines.items() if "joint" in name} == {321}
    assert lines[COUNTS] == 4736


def test_counts_and_prices_of_one_file_make_a_market() -> None:
    (path,) = DATA.glob("*us-east-1c_k80-1gpu_joint.csv")
    market = read_market(
        MarketRecipe(available=FromFile(path), on_demand_price=ON_DEMAND_K80, slot_seconds=3600)
    )
    assert market.num_slots == 53
    assert market.available.max() == 1
    assert 0.3 <= market.price.min() <= market.price.max() <= 1


def test_the_benchmark_has_forty_markets_of_sixteen_days() -> None:
    markets = [named.market for named in benchmark_markets(DATA)]
    assert len(markets) == 40
    assert {market.num_slots for market in markets} == {789}
    assert {int(market.available.max()) for market in markets} == {CAP}
    prices = [float(price) for market in markets for price in market.price]
    # The floor is 0.30 of the on-demand price, and met by a threshold of 0.3.
    assert min(prices) == 0.3
    assert max(prices) < 0.42
    assert len(set(draw_starts(markets, 1000, 10))) > 900


def test_the_made_up_market_is_what_a_fit_finds_in_the_records() -> None:
    trace = read_trace(DATA / COUNTS)
    counts = slot_counts(trace, 0, 1800, whole_slots(trace, 0, 1800))
    found = fit_counts([counts], CAP, 1800)
    assert found.empty == pytest.approx(V100_COUNTS.empty, abs=5e-4)
    assert found.full == pytest.approx(V100_COUNTS.full, abs=5e-4)
    for wave, expected in zip(found.waves, V100_COUNTS.waves, strict=True):
        assert wave.seconds == expected.seconds
        assert wave.share == pytest.approx(expected.share, abs=5e-4)
    traces = [read_trace(path) for path in sorted(DATA.glob(PRICES))]
    prices = fit_prices(
        [in_units(slot_prices(each, 0, 1800, 4320), ON_DEMAND_V100) for each in traces], 1800
    )
    assert prices.mean == pytest.approx(V100_PRICES.mean, abs=5e-5)
    assert prices.deviation == pytest.approx(V100_PRICES.deviation, abs=5e-5)
    assert prices.reversion_seconds == V100_PRICES.reversion_seconds
    assert prices.smoothing_seconds == V100_PRICES.smoothing_seconds


def test_the_record_could_be_made_up() -> None:
    trace = read_trace(DATA / COUNTS)
    counts = slot_counts(trace, 0, 1800, whole_slots(trace, 0, 1800))
    rows = compare(
        count_figures(counts, CAP),
        [
            count_figures(generate_counts(V100_COUNTS, len(counts), seed, 1800), CAP)
            for seed in range(200)
        ],
    )
    assert [row.figure for row in rows if not row.within] == []


def test_arima_on_a_real_market_keeps_to_what_can_be() -> None:
    market = benchmark_markets(DATA)[0].market
    arima = Arima(cap=CAP)
    for slot in (60, 200, 420, 640, 788):
        forecast = arima.forecast(market.until(slot), 9)
        assert forecast.price_quantiles.min() >= 0
        assert forecast.available_quantiles.min() >= 0
        assert forecast.available_quantiles.max() <= CAP
