"""The edge's zone: its sites are two of the auction's Ray nodes, and rows lie there."""

import random
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from auctune.run.edge.records import plan_record, read_decision
from auctune.service.storage.events import ZoneEvent
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.edge.state import empty_model
from soak.audit.sold import check_sold
from soak.data_sets import SITE_ROWS, clean_rows
from soak.faults import ChildKilled
from soak.log import Story
from soak.site import NODES, Site

_SITES = NODES[:2]


class EdgeKind:
    """Two sites of two cores each."""

    zone = "sites"
    weight = 2.0
    replays = True
    faults = (ChildKilled("the sites' process", b"run.edge.worker"),)
    data_sets = MappingProxyType({SITE_ROWS: clean_rows})

    def settings(self, site: Site) -> str:
        """Its table in auctune.toml."""
        sites = "".join(
            f'[[zones.sites]]\nid = "{name}"\ncapacity = {{ cpu = 2.0 }}\n' for name in _SITES
        )
        return f"""
[[zones]]
kind = "edge"
name = "{self.zone}"
slot_seconds = 10.0
slots = 48
chunk_mb = 0.001
rows_move = true
server = {{ cpu = 0.5 }}
headroom = 0.5
pricing = {{ reserve_value = 0.2 }}
ray = {{ address = "{site.cluster}" }}
{sites}"""

    def bid(self, draw: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Data at one site or both."""
        names = draw.choice((_SITES, _SITES[:1], _SITES[1:]))
        sites = {name: draw.choice(files[SITE_ROWS]) for name in names}
        return {
            "model": "tiny",
            "training_file": sites[names[0]],
            "hyperparameters": {"n_epochs": draw.randint(1, 3), "batch_size": 8},
            "market": {
                "sites": sites,
                "bid": f"{draw.lognormvariate(-2, 1.5):.4f}",
                "deadline": f"+{draw.randint(60, 420)}s",
            },
        }

    def fresh(self, opened: Mapping[str, Any]) -> ZoneModel[Any, Any]:
        """State and mechanism."""
        return empty_model(opened)

    def watch(self, memory: ZoneModel[Any, Any], event: ZoneEvent) -> Iterator[str]:
        """The mechanism checks its plans by itself."""
        yield from ()

    def planned(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A cell for each site that has workers in a slot."""
        plan = read_decision(decided["answer"]).plan
        return [
            {"slot": part["slot"], "node": site}
            for part in ([] if plan is None else plan_record(plan))
            for site, workers in part["workers"].items()
            if workers
        ]

    def prices(self, memory: ZoneModel[Any, Any]) -> Mapping[str, Any]:
        """Its operator's table is another one."""
        return {}

    def check(self, story: Story) -> Iterator[str]:
        """A price that was agreed, and slots that were trained."""
        return check_sold(story)
