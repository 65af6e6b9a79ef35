"""The auction's zone: its nodes are on the Ray cluster, each on the Ray node of its own name."""

import random
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.zones.auction.state import AuctionState, empty_model
from auctune.service.zones.core.state import ZoneModel
from soak.audit.sold import check_sold
from soak.data_sets import CLEAN, MESSY, clean_rows, messy_rows
from soak.faults import NodeDrained, NodeKilled, NodeProcessKilled
from soak.log import Story
from soak.site import NODES, Site

_ROUNDING = 1e-6
_MESSY_SHARE = 0.06
_TABLE = ("compute_price", "memory_price", "compute_used", "memory_used")


class AuctionKind:
    """Four nodes, two external vendors of which one lies, and the built-in one."""

    zone = "owned"
    weight = 92.0
    replays = True
    faults = (NodeKilled(zone), NodeDrained(zone), NodeProcessKilled())

    def settings(self, site: Site) -> str:
        """Its table in auctune.toml."""
        nodes = "".join(f'[[zones.nodes]]\nid = "{node}"\ntype = "cpu"\n' for node in NODES)
        vendors = "".join(
            f'[[zones.vendors]]\nname = "{name}"\nurl = "{url}"\n'
            'token_file = "vendor.token"\npoll_seconds = 0.5\nanswer_seconds = 4.0\n'
            for name, url in site.vendors.items()
        )
        return f"""
[[zones]]
name = "{self.zone}"
slot_seconds = 10.0
slots = 48
threads = 1
sample_tokens = 32.0
executor = "ray"
[zones.ray]
address = "{site.cluster}"
lease_seconds = 5.0
missing_seconds = 45.0
[zones.node_types.cpu]
profile = "profile.json"
energy_cost = 0.01
{nodes}[zones.builtin_vendor]
price = "0.03"
{vendors}"""

    data_sets = MappingProxyType({CLEAN: clean_rows, MESSY: messy_rows})

    def bid(self, draw: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Most of them too low: what is decided is more than what can be trained."""
        is_messy = draw.random() < _MESSY_SHARE
        mend = {"repair": True, "bid": f"{draw.uniform(0.1, 2):.4f}"} if is_messy else {}
        return {
            "model": "tiny",
            "training_file": draw.choice(files[MESSY if is_messy else CLEAN]),
            "hyperparameters": {"n_epochs": draw.randint(1, 4), "batch_size": 4},
            "market": {
                "bid": f"{draw.lognormvariate(-4.5, 2):.4f}",
                "deadline": f"+{draw.randint(25, 420)}s",
                "share": draw.choice((0.1, 0.25)),
                "lora": {"rank": draw.choice((4, 8))},
                **mend,
            },
        }

    def fresh(self, opened: Mapping[str, Any]) -> ZoneModel[Any, Any]:
        """State and mechanism."""
        return empty_model(opened)

    def watch(self, memory: ZoneModel[Any, Any], event: ZoneEvent) -> Iterator[str]:
        """Whether a slot that begins has more on a node than the node has."""
        assert isinstance(memory.state, AuctionState)
        if event.type != EventType.SLOT_STARTED:
            return
        state, slot = memory.state, event.body["slot"]
        for node, jobs in state.cells_of(slot).items():
            kind = state.node_type(node)
            sold = sum(job.task.throughput[kind] for job in jobs)
            compute = state.cluster.node_types[kind].compute
            if sold > compute * (1 + _ROUNDING):
                yield f"slot {slot} of node {node} is sold beyond its capacity: {sold} of {compute}"

    def planned(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The cells of its schedule."""
        schedule = decided["decision"]["schedule"]
        return [] if schedule is None else list(schedule["cells"])

    def prices(self, memory: ZoneModel[Any, Any]) -> Mapping[str, Any]:
        """Of every cell of the window."""
        assert isinstance(memory.state, AuctionState)
        state = memory.mechanism.state()
        return {name: getattr(state, name).tolist() for name in _TABLE}

    def check(self, story: Story) -> Iterator[str]:
        """A price that was agreed, and slots that were trained."""
        return check_sold(story)
