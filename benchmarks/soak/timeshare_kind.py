"""The zone of one pool that jobs share, each to a loss."""

import random
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.memory import Memory
from auctune.service.zones.timeshare.memory import TimeshareMemory
from soak.audit.metered import check_metered
from soak.data_sets import CLEAN, clean_rows
from soak.faults import ChildKilled
from soak.log import Story
from soak.site import Site

# Its first loss is above 5.
_TARGETS = (4.0, 2.5, 1.0, 0.5, 1e-6)


class TimeshareKind:
    """A pool on one core, a hundredth a second."""

    zone = "pool"
    weight = 1.2
    replays = True
    faults = (ChildKilled("the pool", b"open_pool.worker"),)

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

    data_sets = MappingProxyType({CLEAN: clean_rows})

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

    def fresh(self, opened: Mapping[str, Any]) -> Memory:
        """Its state."""
        return TimeshareMemory()

    def watch(self, memory: Memory, event: ZoneEvent) -> Iterator[str]:
        """Nothing is sold ahead."""
        yield from ()

    def planned(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Nothing is sold ahead."""
        return []

    def prices(self, memory: Memory) -> Mapping[str, Any]:
        """It has no table of cells."""
        return {}

    def check(self, story: Story) -> Iterator[str]:
        """A cap that was set aside, and units that were charged."""
        return check_metered(story)
