from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.files import read_record
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market


def write(path: Path, rows: list[tuple[int, str, str]]) -> Path:
    lines = [f"{t},{count},{price}" for t, count, price in rows]
    path.write_text("t_s,available,price\n" + "\n".join(lines) + "\n")
    return path


def test_a_record_has_every_line_and_its_slots_are_the_markets(tmp_path: Path) -> None:
    rows = [(600 * k, str((5 * k) % 7), str(1.0 + 0.5 * (k % 3))) for k in range(12)]
    file = write(tmp_path / "a.csv", rows)
    recipe = MarketRecipe(available=FromFile(file), on_demand_price=2.0)
    record, market = read_record(recipe), read_market(recipe)
    assert record.seconds.tolist() == [600.0 * k for k in range(12)]
    assert record.available.reshape(4, 3).min(axis=1).tolist() == market.available.tolist()
    assert np.allclose(record.price.reshape(4, 3).mean(axis=1), market.price)


def test_prices_of_another_file_are_those_of_the_moment(tmp_path: Path) -> None:
    counts = write(tmp_path / "c.csv", [(600 * k, str(k), "") for k in range(9)])
    prices = write(tmp_path / "p.csv", [(900 * k, "", str(k + 1)) for k in range(6)])
    recipe = MarketRecipe(available=FromFile(counts), price=FromFile(prices, start_s=900.0))
    record = read_record(recipe)
    # Prices end at 5400 s, that is 4500 s after the beginning.
    assert record.seconds.tolist() == [600.0 * k for k in range(8)]
    assert record.price.tolist() == [2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 6.0, 6.0]
    fixed = read_record(MarketRecipe(available=FromFile(counts), price=FixedPrice(0.5)))
    assert fixed.price.tolist() == [0.5] * 9


def test_a_record_may_begin_within_a_line_but_not_before_the_first(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", [(600 + 600 * k, str(k), "1") for k in range(6)])
    record = read_record(MarketRecipe(available=FromFile(file, start_s=1500.0)))
    assert record.seconds.tolist() == [0.0, 300.0, 900.0, 1500.0, 2100.0]
    assert record.available.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(InputError, match="begins at 600 s"):
        read_record(MarketRecipe(available=FromFile(file, start_s=0.0)))
