"""Spot zones, with a market that is made up."""

from pathlib import Path

from auctune.service.config.spot import SpotConfig
from support.service_process import write_profile_for
from support.serving import SLOT_SECONDS
from support.spot_files import daily_market, write_market

SPOT_CONSTANTS = {
    "auctune.service.zones.spot.worker.CHECKPOINT_SECONDS": 0.3,
}
"""Of a service whose slots are short."""

ON_DEMAND_PRICE = 3600.0
"""Of a GPU for an hour: a slot of a second costs 1."""


def write_spot_service(
    folder: Path,
    architecture: str,
    *,
    slot_seconds: float,
    tokens_per_second: float,
    policy: str = "msu",
    n_max: int = 2,
) -> Path:
    """Settings of one zone, `rented`; it is served with `SPOT_CONSTANTS`."""
    folder.mkdir(parents=True, exist_ok=True)
    market = daily_market(240, slot_seconds, period=12)
    write_market(folder / "market.csv", market, ON_DEMAND_PRICE)
    write_profile_for(folder, architecture, tokens_per_second, gradient_checkpointing=2)
    file = folder / "auctune.toml"
    file.write_text(
        f"""
[[zones]]
kind = "spot"
name = "rented"
slot_seconds = {slot_seconds}
threads = 1
market = "market.csv"
on_demand_price = {ON_DEMAND_PRICE}
margin = 0.25
policy = "{policy}"
forecast = "seasonal:season=12"
start = 120
n_max = {n_max}
max_jobs = 1
profile = "profile.json"
start_seconds = 0.0
gradient_checkpointing = 2
"""
    )
    return file


def spot_zone(folder: Path, name: str = "rented", price: float = 60.0) -> SpotConfig:
    """A zone for `support.serving`: a slot of an instance on demand costs a 60th of `price`.

    Args:
        folder: where its market's file is written.
        name: of the zone.
        price: of a GPU for an hour.
    """
    market = daily_market(200, SLOT_SECONDS, period=12)
    return SpotConfig(
        name=name,
        slot_seconds=SLOT_SECONDS,
        market=str(write_market(folder / f"{name}.csv", market, price)),
        on_demand_price=price,
        margin=0.5,
        policy="msu",
        start=100,
        slots=30,
        max_jobs=20,
        start_seconds=0.0,
    )
