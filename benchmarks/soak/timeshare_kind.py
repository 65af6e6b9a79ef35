"""The zone of one pool that jobs share, each to a loss."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.timeshare.state import empty_model
from soak.data_sets import CLEAN
from soak.faults import ChildKilled
from soak.metered_kind import MeteredKind
from soak.site import Site

# Its first loss is above 5.
_TARGETS = (4.0, 2.5, 1.0, 0.5, 1e-6)


class TimeshareKind(MeteredKind):
    """A pool on one core, a hundredth a second."""

    zone = "pool"
    weight = 1.2
    faults = (ChildKilled("the pool", b"pool.worker"),)

    def settings(self, site: Site) -> str:
        """Its table in auctune.toml."""
        return f"""
[[zones]]
kind = "timeshare"
name = "{self.zone}"
slot_seconds = 2.0
price_per_second = "0.01"
threads = 1
profile = "profile.json"
"""

    def bid(self, draw: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Targets that are met at once, late, or never; the cap ends those that would not end."""
        return {
            "model": "tiny",
            "training_file": draw.choice(files[CLEAN]),
            "hyperparameters": {"batch_size": 4},
            "market": {
                "target_loss": draw.choice(_TARGETS),
                "deadline": f"+{draw.randint(15, 150)}s",
                "max_cost": f"{draw.uniform(0.01, 0.15):.4f}",
                "lora": {"rank": 4, "learning_rate": 0.01},
            },
        }

    def fresh(self, opened: Mapping[str, Any]) -> ZoneModel[Any, Any]:
        """Its state."""
        return empty_model(opened)
