import numpy as np
import pytest

from auctune.domain import InputError
from auctune.spot import SpotMarket


def test_a_market_keeps_its_own_copy() -> None:
    price, available = np.array([0.3, 0.4]), np.array([1, 2])
    market = SpotMarket(price, available)
    price[0], available[0] = 9.0, 9
    assert market.price.tolist() == [0.3, 0.4]
    assert market.available.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        market.price[0] = 1.0


def test_a_part_of_a_market_keeps_its_terms() -> None:
    market = SpotMarket(np.array([0.1, 0.2, 0.3]), np.array([1, 2, 3]), 3.06, 600.0)
    part = market.between(1, 3)
    assert part.price.tolist() == [0.2, 0.3]
    assert (part.on_demand_price, part.slot_seconds) == (3.06, 600.0)
    assert market.until(0).available.tolist() == [1]


@pytest.mark.parametrize(
    ("price", "available", "place"),
    [
        ([0.1, -0.1], [1, 1], r"price\[1\]"),
        ([0.1, np.nan], [1, 1], r"price\[1\]"),
        ([0.1, 0.1], [1, -1], r"available\[1\]"),
        ([0.1, 0.1], [0.5, 1], r"available\[0\]"),
        ([0.1], [1, 1], "available"),
    ],
)
def test_wrong_series_are_refused_at_their_slot(
    price: list[float], available: list[float], place: str
) -> None:
    with pytest.raises(InputError, match=f"^{place}"):
        SpotMarket(np.array(price), np.array(available))


def test_slots_that_a_market_has_not_are_refused() -> None:
    with pytest.raises(InputError, match="2 slots; expected slots 1 to 2"):
        SpotMarket(np.array([0.1, 0.2]), np.array([1, 2])).between(1, 3)
