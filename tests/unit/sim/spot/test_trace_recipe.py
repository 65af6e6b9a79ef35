from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.sim.spot.trace import (
    ON_DEMAND_V100,
    FixedPrice,
    FromFile,
    MarketRecipe,
    read_market,
)
from support.market_rows import even_rows, write_rows


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    rows = even_rows([(4, ""), (3, ""), (2, ""), (6, ""), (5, ""), (7, "")], step=900)
    return write_rows(tmp_path / "counts.csv", rows)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    rows = even_rows([("", 0.918), ("", 1.53), ("", 3.06)], step=3600)
    return write_rows(tmp_path / "prices.csv", rows)


def test_counts_and_prices_of_two_files_make_a_market_as_long_as_the_shorter(
    counts: Path, prices: Path
) -> None:
    recipe = MarketRecipe(
        available=FromFile(counts),
        price=FromFile(prices, start_s=1800),
        on_demand_price=ON_DEMAND_V100,
    )
    market = read_market(recipe)
    assert market.available.tolist() == [3, 2, 5]
    assert market.price == pytest.approx([0.3, 0.5, 0.5])
    assert (market.on_demand_price, market.slot_seconds) == (1.0, 1800.0)
    late = MarketRecipe(available=FromFile(counts), price=FromFile(prices, start_s=9000))
    assert read_market(late).num_slots == 1


def test_the_price_at_the_floor_meets_the_threshold_of_the_same_decimals(prices: Path) -> None:
    # 0.30 of the on-demand price: what binary division makes of it must not miss 0.3.
    for usd in (0.918, 0.306, 0.4284, 0.5202):
        rows = even_rows([(1, usd), (1, usd)], step=1800)
        path = write_rows(prices.with_name("floor.csv"), rows)
        recipe = MarketRecipe(available=FromFile(path), on_demand_price=ON_DEMAND_V100)
        assert read_market(recipe).price.tolist() == [round(usd / 3.06, 3)] * 2


def test_a_fixed_price_stands_beside_counts(counts: Path) -> None:
    recipe = MarketRecipe(available=FromFile(counts), price=FixedPrice(0.3))
    assert read_market(recipe).price.tolist() == [0.3, 0.3, 0.3]


def test_a_missing_series_is_never_made_up(counts: Path, prices: Path) -> None:
    with pytest.raises(InputError, match=r"counts\.csv: price: is empty throughout"):
        read_market(MarketRecipe(available=FromFile(counts)))
    with pytest.raises(InputError, match=r"prices\.csv: available: is empty throughout"):
        read_market(MarketRecipe(available=FromFile(prices)))
    with pytest.raises(InputError, match=r"counts\.csv: price: is empty throughout"):
        read_market(MarketRecipe(available=FromFile(counts), price=FromFile(counts, 900)))
