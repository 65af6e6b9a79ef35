"""The zone that rents: a market of spot instances that is replayed, each job in a process."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.spot.state import empty_model
from soak.data_sets import CLEAN
from soak.faults import ChildKilled
from soak.metered_kind import MeteredKind
from soak.site import Site
from support.spot_files import daily_market, write_market

_SLOT_SECONDS = 4.0
# An instance on demand costs 0.05 a slot.
_ON_DEMAND_PRICE = 0.05 * 3600 / _SLOT_SECONDS


class SpotKind(MeteredKind):
    """Three jobs at once, two instances each."""

    zone = "rented"
    weight = 1.5
    faults = (ChildKilled("the process of a spot job", b"spot.job_process"),)

    def settings(self, site: Site) -> str:
        """Its table in auctune.toml, and its market beside it."""
        market = daily_market(4000, _SLOT_SECONDS, period=12)
        write_market(site.folder / "market.csv", market, _ON_DEMAND_PRICE)
        return f"""
[[zones]]
kind = "spot"
name = "{self.zone}"
slot_seconds = {_SLOT_SECONDS}
threads = 1
market = "market.csv"
on_demand_price = {_ON_DEMAND_PRICE}
margin = 0.25
policy = "robust:risk=0.1"
forecast = "seasonal:season=12"
start = 240
n_max = 2
max_jobs = 3
profile = "profile.json"
checkpoint_seconds = 1.0
"""

    def bid(self, draw: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Caps above and below what is likely; some whose value falls."""
        terms: dict[str, Any] = {"lora": {"rank": 4}}
        cap, deadline = f"{draw.uniform(0.1, 4):.2f}", f"+{draw.randint(40, 180)}s"
        if draw.random() < 0.3:
            terms["value"] = {"amount": cap, "deadline": deadline}
        else:
            terms |= {"max_cost": cap, "deadline": deadline}
        return {
            "model": "tiny",
            "training_file": draw.choice(files[CLEAN]),
            "hyperparameters": {"n_epochs": draw.randint(1, 8), "batch_size": 4},
            "market": terms,
        }

    def fresh(self, opened: Mapping[str, Any]) -> ZoneModel[Any, Any]:
        """Its state."""
        return empty_model(opened)
