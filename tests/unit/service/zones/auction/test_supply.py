"""What a zone's settings say of its energy, slot by slot."""

from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.service.config.auction import AuctionConfig, NodeTypeConfig
from auctune.service.zones.auction.zone import zone_energy

MIDNIGHT = 20_000 * 86_400.0


def zone(**settings: object) -> AuctionConfig:
    kinds = {"local": NodeTypeConfig(power_kw=2.0), "other": NodeTypeConfig(energy_cost=0.5)}
    return AuctionConfig(slot_seconds=1800.0, node_types=kinds, **settings)  # type: ignore[arg-type]


def test_a_price_makes_power_into_money_and_leaves_given_costs_alone() -> None:
    energy = zone_energy(zone(energy_price=80.0), MIDNIGHT)
    assert [energy("local", slot) for slot in (0, 7, 100_000)] == [pytest.approx(0.08)] * 3
    assert energy("other", 3) == 0.5


def test_a_day_ahead_file_has_its_own_price_for_each_hour_and_none_below_zero(
    tmp_path: Path,
) -> None:
    prices = np.linspace(-20.0, 95.0, 24)
    path = tmp_path / "prices.csv"
    rows = "".join(f"{3600 * hour},{price}\n" for hour, price in enumerate(prices))
    path.write_text(f"t_s,price_usd_per_mwh\n{rows}")
    # Slot 0 begins at 6 in the morning.
    energy = zone_energy(zone(energy_price=str(path)), MIDNIGHT + 6 * 3600)
    for slot in (0, 1, 20, 36, 48 + 36, 10_000):
        hour = (6 + slot // 2) % 24
        assert energy("local", slot) == pytest.approx(max(0.0, prices[hour]) / 1000)


def test_a_file_of_prices_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    with pytest.raises(InputError, match=r"prices\.csv"):
        zone_energy(zone(energy_price=str(path)), MIDNIGHT)
    path.write_text("t_s,price_usd_per_mwh\n0,1\n3600,1\n")
    with pytest.raises(InputError, match=r"prices\.csv: t_s.*whole days"):
        zone_energy(zone(energy_price=str(path)), MIDNIGHT)
