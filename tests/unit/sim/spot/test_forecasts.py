from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.forecasts import (
    CachedForecasts,
    forecast_digest,
    forecasts_of_job,
    market_forecasts,
)
from auctune.spot import SpotMarket
from auctune.spot.forecasts import Forecast, ForecastTable, SeasonalNaive, make_forecasts
from support.spot_markets import random_market

COLUMNS = ("price", "available", "levels", "price_quantiles", "available_quantiles")


@dataclass
class Counted:
    """A seasonal naive forecaster that counts what it is asked."""

    season: int = 3
    asked: list[int] = field(default_factory=list)

    @property
    def description(self) -> str:
        return f"counted {self.season}"

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        self.asked.append(past.num_slots)
        return SeasonalNaive(self.season, 12).forecast(past, num_slots)


def same(one: ForecastTable, other: ForecastTable) -> bool:
    return all(
        getattr(one, name).dtype == getattr(other, name).dtype
        and getattr(one, name).tolist() == getattr(other, name).tolist()
        for name in COLUMNS
    )


def test_forecasts_are_made_once_and_come_back_to_the_last_bit(tmp_path: Path) -> None:
    market, forecaster = random_market(20, seed=1), Counted()
    made = market_forecasts(forecaster, market, 4, tmp_path / "cache")
    assert forecaster.asked == list(range(1, 21))
    assert same(made, make_forecasts(SeasonalNaive(3, 12), market, 0, 20, 4))
    kept = market_forecasts(forecaster, market, 4, tmp_path / "cache")
    assert len(forecaster.asked) == 20
    assert same(made, kept)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".parquet"]


def test_a_file_grows_by_the_slots_that_are_asked_for(tmp_path: Path) -> None:
    market, forecaster = random_market(20, seed=1), Counted()
    for slots in ([3, 4], [4, 9, 3], []):
        kept = CachedForecasts(forecaster, market, 4, tmp_path)
        for slot in slots:
            expected = SeasonalNaive(3, 12).forecast(market.until(slot), 4)
            assert kept.at(slot).price_quantiles.tolist() == expected.price_quantiles.tolist()
        kept.save()
    assert forecaster.asked == [4, 5, 10]


def test_whatever_a_forecast_depends_on_is_in_its_name() -> None:
    market = random_market(20, seed=1)
    price, counts = market.price.copy(), market.available.copy()
    price[7] = np.nextafter(price[7], 1)
    counts[7] += 1
    digests = {
        forecast_digest(Counted(), market, 4),
        forecast_digest(Counted(2), market, 4),
        forecast_digest(Counted(), market, 5),
        forecast_digest(Counted(), market.between(0, 19), 4),
        forecast_digest(Counted(), SpotMarket(price, market.available), 4),
        forecast_digest(Counted(), SpotMarket(market.price, counts), 4),
    }
    assert len(digests) == 6
    again = SpotMarket(market.price.copy(), market.available.copy())
    assert forecast_digest(Counted(), again, 4) in digests


def test_who_waits_is_told_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    market_forecasts(
        Counted(), random_market(3, 1), 2, tmp_path, lambda done, all_: told.append((done, all_))
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_forecasts_of_a_job_are_those_made_in_its_slots(tmp_path: Path) -> None:
    market = random_market(20, seed=1)
    table = market_forecasts(Counted(), market, 4, tmp_path)
    of_job = forecasts_of_job(table, 5, 10)
    assert same(of_job, make_forecasts(SeasonalNaive(3, 12), market, 5, 10, 4))
    with pytest.raises(InputError, match="forecasts: made in 20 slots; expected slots 11 to 20"):
        forecasts_of_job(table, 11, 10)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    market = random_market(20, seed=1)
    market_forecasts(Counted(), market, 4, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match=r"\.parquet: is damaged"):
        market_forecasts(Counted(), market, 4, tmp_path)


def test_a_folder_that_cannot_be_is_named_before_anything_is_forecast(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    forecaster = Counted()
    with pytest.raises(InputError, match=r"file: cannot be written"):
        market_forecasts(forecaster, random_market(3, 1), 2, tmp_path / "file")
    assert forecaster.asked == []
