"""Prices by slot are means over time; what mechanisms see is never below zero."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.files.electricity import PriceSeries, read_prices, slot_costs
from auctune.sim.energy import DailySwing, DayAhead

HOURLY = PriceSeries(3600 * np.arange(48.0), np.linspace(-20.0, 74.0, 48))


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["t_s,price_usd_per_mwh", *rows]) + "\n")
    return path


def test_a_slot_that_lies_in_two_hours_costs_their_mean_by_time() -> None:
    prices = DayAhead(HOURLY).prices(slots=3, slot_seconds=1500.0)
    # The third slot has 600 s at -20 and 900 s at -18.
    assert prices == pytest.approx([-20, -20, (600 * -20 + 900 * -18) / 1500])


def test_a_slot_longer_than_an_hour_costs_the_mean_of_its_hours() -> None:
    prices = DayAhead(HOURLY, start_day=1).prices(slots=4, slot_seconds=6 * 3600)
    assert prices == pytest.approx(HOURLY.usd_per_mwh[24:].reshape(4, 6).mean(axis=1))


@given(
    slot_seconds=st.floats(60, 7000),
    start_day=st.floats(0, 0.5),
    prices=st.lists(st.floats(-500, 500), min_size=48, max_size=48),
)
def test_slots_together_cost_what_the_hours_do(
    slot_seconds: float, start_day: float, prices: list[float]
) -> None:
    series = PriceSeries(HOURLY.t_s, np.array(prices))
    by_slot = DayAhead(series, start_day).prices(10, slot_seconds)
    for slot, mean in enumerate(by_slot.tolist()):
        start = start_day * 86_400 + slot * slot_seconds
        spent = 0.0
        for hour, price in enumerate(prices):
            shared = min(start + slot_seconds, 3600 * (hour + 1)) - max(start, 3600 * hour)
            spent += max(0.0, shared) * price
        assert mean == pytest.approx(spent / slot_seconds, abs=1e-6)


def test_a_horizon_beyond_the_prices_is_refused() -> None:
    last_day = DayAhead(HOURLY, start_day=1)
    assert len(last_day.prices(24, 3600.0)) == 24
    with pytest.raises(InputError, match=r"energy_start_day: days 1 to 2\.04167 are asked for"):
        last_day.prices(25, 3600.0)


def test_a_node_of_400_watts_at_50_dollars_costs_two_cents_an_hour() -> None:
    costs = slot_costs(0.4, np.array([50.0, -10.0, 0.0]), 3600.0)
    assert costs.real == pytest.approx((0.02, -0.004, 0.0))
    assert costs.seen == pytest.approx((0.02, 0.0, 0.0))


def test_the_made_up_price_is_cheapest_at_night_and_has_its_mean() -> None:
    prices = DailySwing(80.0).prices(144, 600.0)
    assert prices.mean() == pytest.approx(80.0)
    assert (prices.argmin() / 6, prices.argmax() / 6) == (4.0, 16.0)


def test_prices_are_read_with_those_below_zero(tmp_path: Path) -> None:
    series = read_prices(write(tmp_path / "p.csv", "0,-5.58", "3600,1e2", "5400,7"))
    assert series.t_s.tolist() == [0, 3600, 5400]
    assert series.usd_per_mwh.tolist() == [-5.58, 100, 7]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1", "3600,cheap"], "line 3: price_usd_per_mwh: 'cheap'; expected USD per MWh"),
        (["0,1", "3600,"], "line 3: price_usd_per_mwh: is missing; expected USD per MWh"),
        (["0,1", "3600,2", "3600,3"], "line 4: t_s: is not after the line before"),
        (["-1,1", "3600,2"], "line 2: t_s: '-1'; expected seconds >= 0"),
        (["0,1"], "has 1 prices; expected two at least"),
    ],
)
def test_malformed_prices_are_named(rows: list[str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", *rows)
    with pytest.raises(InputError) as caught:
        read_prices(path)
    assert str(caught.value).startswith(f"{path}: {message}")
