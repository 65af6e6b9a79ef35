"""Zones of the soak, one of each kind: settings, random bids, faults, and facts for the audit."""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from auctune.engine.edge.records import plan_record, read_decision
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.auction.state import empty_model as empty_auction
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.edge.state import empty_model as empty_edge
from auctune.service.zones.spot.state import empty_model as empty_spot
from auctune.service.zones.timeshare.state import empty_model as empty_timeshare
from soak.environment import NODES, Environment
from soak.faults import AUCTION_ZONE, NODE_FAULTS, Fault, child_killed
from support.spot_files import daily_market, write_market

Model = ZoneModel[Any, Any]

CLEAN, MESSY, SITE_ROWS = "clean", "messy", "rows at sites"
_MESSY_SHARE = 0.06
_CAPACITY_TOLERANCE = 1e-6
_PRICE_TABLE = ("compute_price", "memory_price", "compute_used", "memory_used")
_EDGE_SITES = NODES[:2]
_SPOT_SLOT_SECONDS = 4.0
# An on-demand instance costs 0.05 per slot.
_ON_DEMAND_PRICE = 0.05 * 3600 / _SPOT_SLOT_SECONDS
# The first loss of a pool's job is above 5.
_TARGET_LOSSES = (4.0, 2.5, 1.0, 0.5, 1e-6)


def clean_rows(rng: random.Random) -> bytes:
    """Return conversations that differ from those of any other data set."""
    mark = rng.randrange(10**6)
    rows = (
        {
            "messages": [
                {"role": "user", "content": f"What is {n} and {mark}?"},
                {"role": "assistant", "content": f"It is {n + mark}."},
            ]
        }
        for n in range(rng.randint(6, 40))
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def messy_rows(rng: random.Random) -> bytes:
    """Return rows to repair: several schemas, duplicates, invalid JSON, a truncated last row."""
    mark = rng.randrange(10**6)
    lines = []
    for n in range(rng.randint(4, 20)):
        question, reply = f"How much is {n} times {mark}, by and large?", f"About {n * mark}."
        schema = rng.randrange(3)
        if schema == 0:
            lines.append(json.dumps({"prompt": question, "completion": reply}))
        elif schema == 1:
            lines.append(json.dumps({"instruction": question, "output": reply})[:-1] + ",}")
        else:
            lines += [json.dumps({"prompt": question.upper(), "completion": reply})] * 2
    return "\n".join((*lines, '{"prompt": "cut off", "comple')).encode() + b"\n"


DATA_SETS: Mapping[str, Callable[[random.Random], bytes]] = {
    CLEAN: clean_rows,
    MESSY: messy_rows,
    SITE_ROWS: clean_rows,
}


class SoakZone(ABC):
    """A zone of the soak.

    Attributes:
        name: of the zone.
        weight: relative frequency of bids for it.
        is_metered: whether jobs are charged by use; else they are sold at a price.
        empty_model: returns the model before the first event, for the recorded settings.
        faults: that concern this zone only.
    """

    name: ClassVar[str]
    weight: ClassVar[float]
    is_metered: ClassVar[bool]
    empty_model: Callable[[Mapping[str, Any]], Model]
    faults: ClassVar[Sequence[Fault]]

    @abstractmethod
    def settings(self, environment: Environment) -> str:
        """Return the zone's table of auctune.toml; write the files that it refers to."""

    @abstractmethod
    def bid(self, rng: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return the body of a random request for a job.

        Args:
            rng: to draw from.
            files: ids of the client's data sets, by their key in `DATA_SETS`; at least one each.
        """

    def sold_cells(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return slot and node of each cell sold by a decision, given the body of its event."""
        return []

    def price_table(self, model: Model) -> Mapping[str, Any]:
        """Return those entries of the operator's price table that the model determines."""
        return {}

    def check_state(self, model: Model, event: ZoneEvent) -> Iterator[str]:
        """Yield violated invariants of the state after an event."""
        yield from ()


class AuctionZone(SoakZone):
    """Four nodes, each on the Ray node of its name; three vendors, of which one is faulty."""

    name = AUCTION_ZONE
    weight = 92.0
    is_metered = False
    empty_model = staticmethod(empty_auction)
    faults = NODE_FAULTS

    def settings(self, environment: Environment) -> str:
        nodes = "".join(f'[[zones.nodes]]\nid = "{node}"\ntype = "cpu"\n' for node in NODES)
        vendors = "".join(
            f'[[zones.vendors]]\nname = "{name}"\nurl = "{url}"\ntoken_file = "vendor.token"\n'
            for name, url in environment.vendor_urls.items()
        )
        return f"""
[[zones]]
name = "{self.name}"
slot_seconds = 10.0
slots = 48
threads = 1
executor = "ray"
[zones.ray]
address = "{environment.cluster.address}"
[zones.node_types.cpu]
profile = "profile.json"
energy_cost = 0.01
{nodes}[zones.builtin_vendor]
price = "0.03"
{vendors}"""

    def bid(self, rng: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        # Most bids are too low, so that more is decided than could be trained.
        is_messy = rng.random() < _MESSY_SHARE
        repair = {"repair": True, "bid": f"{rng.uniform(0.1, 2):.4f}"} if is_messy else {}
        return {
            "model": "tiny",
            "training_file": rng.choice(files[MESSY if is_messy else CLEAN]),
            "hyperparameters": {"n_epochs": rng.randint(1, 4), "batch_size": 4},
            "market": {
                "bid": f"{rng.lognormvariate(-4.5, 2):.4f}",
                "deadline": f"+{rng.randint(25, 420)}s",
                "share": rng.choice((0.1, 0.25)),
                "lora": {"rank": rng.choice((4, 8))},
                **repair,
            },
        }

    def sold_cells(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        schedule = decided["decision"]["schedule"]
        return [] if schedule is None else list(schedule["cells"])

    def price_table(self, model: Model) -> Mapping[str, Any]:
        state = model.mechanism.state()
        return {name: getattr(state, name).tolist() for name in _PRICE_TABLE}

    def check_state(self, model: Model, event: ZoneEvent) -> Iterator[str]:
        """Check that a starting slot is not sold beyond the capacity of a node."""
        state = model.state
        assert isinstance(state, AuctionState)
        if event.type != EventType.SLOT_STARTED:
            return
        slot = event.body["slot"]
        for node, jobs in state.cells_of(slot).items():
            node_type = state.node_type(node)
            sold = sum(job.task.throughput[node_type] for job in jobs)
            compute = state.cluster.node_types[node_type].compute
            if sold > compute * (1 + _CAPACITY_TOLERANCE):
                yield f"slot {slot} of node {node} is sold beyond its capacity: {sold} of {compute}"


class SpotZone(SoakZone):
    """A synthetic spot market with a daily cycle; three jobs at once, two instances each."""

    name = "rented"
    weight = 1.5
    is_metered = True
    empty_model = staticmethod(empty_spot)
    faults = (child_killed("the process of a spot job", "auctune.engine.spot.job_process"),)

    def settings(self, environment: Environment) -> str:
        market = daily_market(4000, _SPOT_SLOT_SECONDS, period=12)
        write_market(environment.folder / "market.csv", market, _ON_DEMAND_PRICE)
        return f"""
[[zones]]
kind = "spot"
name = "{self.name}"
slot_seconds = {_SPOT_SLOT_SECONDS}
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
"""

    def bid(self, rng: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        # Caps are above or below the likely cost; some jobs have a value that declines.
        terms: dict[str, Any] = {"lora": {"rank": 4}}
        cap, deadline = f"{rng.uniform(0.1, 4):.2f}", f"+{rng.randint(40, 180)}s"
        if rng.random() < 0.3:
            terms["value"] = {"amount": cap, "deadline": deadline}
        else:
            terms |= {"max_cost": cap, "deadline": deadline}
        return {
            "model": "tiny",
            "training_file": rng.choice(files[CLEAN]),
            "hyperparameters": {"n_epochs": rng.randint(1, 8), "batch_size": 4},
            "market": terms,
        }


class TimeshareZone(SoakZone):
    """A pool on one core, for 0.01 per second."""

    name = "pool"
    weight = 1.2
    is_metered = True
    empty_model = staticmethod(empty_timeshare)
    faults = (child_killed("the pool", "auctune.engine.workers.node"),)

    def settings(self, environment: Environment) -> str:
        return f"""
[[zones]]
kind = "timeshare"
name = "{self.name}"
slot_seconds = 2.0
price_per_second = "0.01"
threads = 1
profile = "profile.json"
"""

    def bid(self, rng: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        # Targets are reached at once, late, or never; then the cap ends the job.
        return {
            "model": "tiny",
            "training_file": rng.choice(files[CLEAN]),
            "hyperparameters": {"batch_size": 4},
            "market": {
                "target_loss": rng.choice(_TARGET_LOSSES),
                "deadline": f"+{rng.randint(15, 150)}s",
                "max_cost": f"{rng.uniform(0.01, 0.15):.4f}",
                "lora": {"rank": 4, "learning_rate": 0.01},
            },
        }


class EdgeZone(SoakZone):
    """Two sites of two cores each, on two of the auction's Ray nodes."""

    name = "sites"
    weight = 2.0
    is_metered = False
    empty_model = staticmethod(empty_edge)
    faults = (child_killed("the sites' process", "auctune.engine.edge.worker"),)

    def settings(self, environment: Environment) -> str:
        sites = "".join(
            f'[[zones.sites]]\nid = "{name}"\ncapacity = {{ cpu = 2.0 }}\n' for name in _EDGE_SITES
        )
        return f"""
[[zones]]
kind = "edge"
name = "{self.name}"
slot_seconds = 10.0
slots = 48
rows_move = true
server = {{ cpu = 0.5 }}
headroom = 0.5
pricing = {{ reserve_value = 0.2 }}
ray = {{ address = "{environment.cluster.address}" }}
{sites}"""

    def bid(self, rng: random.Random, files: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        # The data lie at one site or at both.
        names = rng.choice((_EDGE_SITES, _EDGE_SITES[:1], _EDGE_SITES[1:]))
        sites = {name: rng.choice(files[SITE_ROWS]) for name in names}
        return {
            "model": "tiny",
            "training_file": sites[names[0]],
            "hyperparameters": {"n_epochs": rng.randint(1, 3), "batch_size": 8},
            "market": {
                "sites": sites,
                "bid": f"{rng.lognormvariate(-2, 1.5):.4f}",
                "deadline": f"+{rng.randint(60, 420)}s",
            },
        }

    def sold_cells(self, decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return a cell for each site that has workers in a slot."""
        plan = read_decision(decided["answer"]).plan
        return [
            {"slot": part["slot"], "node": site}
            for part in ([] if plan is None else plan_record(plan))
            for site, workers in part["workers"].items()
            if workers
        ]


ZONES: tuple[SoakZone, ...] = (AuctionZone(), SpotZone(), TimeshareZone(), EdgeZone())
