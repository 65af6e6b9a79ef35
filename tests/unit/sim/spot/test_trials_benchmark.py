from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.trials import COUNTS, Start, benchmark_markets, draw_starts
from auctune.spot import SpotMarket
from support.market_rows import even_rows, write_rows

DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Counts of a day and a half, and five and a half days of hourly prices in two zones."""
    counts = [(hour % 17, "") for hour in range(36)]
    write_rows(tmp_path / COUNTS, even_rows(counts, step=3600))
    for zone, usd in (("b", 0.918), ("a", 1.836)):
        prices = [("", usd + 0.001 * hour) for hour in range(132)]
        write_rows(tmp_path / f"aws2020_{zone}_v100-1gpu_price.csv", even_rows(prices, step=3600))
    write_rows(tmp_path / "aws2020_a_v100-8gpu_price.csv", ["nonsense"])
    return tmp_path


def test_each_zone_gives_markets_of_different_days(folder: Path) -> None:
    made = benchmark_markets(folder, slot_seconds=3600.0)
    # Those of day 4 end with the prices.
    names = [f"{zone}, day {day}" for zone in "ab" for day in (0, 2, 4)]
    assert [named.name for named in made] == names
    for named in made:
        assert named.market.available.tolist() == [hour % 17 for hour in range(36)]
    assert made[0].market.price[0] == pytest.approx(0.6)
    assert made[1].market.price[0] == pytest.approx((1.836 + 0.048) / 3.06)


def test_a_folder_without_the_files_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no aws2020"):
        benchmark_markets(tmp_path / "elsewhere")
    (folder / COUNTS).unlink()
    with pytest.raises(InputError, match="cannot be read"):
        benchmark_markets(folder)


def markets_of(*lengths: int) -> list[SpotMarket]:
    return [SpotMarket(np.full(n, 0.5), np.ones(n, dtype=np.int64)) for n in lengths]


def test_starts_leave_the_past_and_the_job_room_and_reach_all_places() -> None:
    markets = markets_of(12, 15)
    starts = draw_starts(markets, 500, 4, past=6, seed=1)
    allowed = {Start(0, slot) for slot in range(6, 9)} | {Start(1, slot) for slot in range(6, 12)}
    assert set(starts) == allowed


def test_starts_are_the_seeds_own_and_fewer_are_the_first_of_more() -> None:
    markets = markets_of(300, 300)
    starts = draw_starts(markets, 40, 10, seed=3)
    assert draw_starts(markets, 15, 10, seed=3) == starts[:15]
    assert draw_starts(markets, 40, 10, seed=4) != starts


def test_a_market_without_room_is_named() -> None:
    with pytest.raises(InputError, match=r"markets\[1\]: 9 slots; expected 6 \+ 4 at least"):
        draw_starts(markets_of(10, 9), 3, 4, past=6)
