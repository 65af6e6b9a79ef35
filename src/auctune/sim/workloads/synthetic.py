"""Synthetic workloads in the manner of the paper (Zheng et al., ICPP 2024, section 5.1).

Poisson arrivals over a day of 144 slots of 10 minutes; 5,000 to 20,000 samples and 1 to 5 epochs
a task; A100 (80 GB) and A40 (48 GB) nodes. The paper does not disclose its valuations, device
figures, vendors' terms and electricity prices. Those here are parameters, with these defaults:
a value per sample from a log-normal distribution; vendors' prices uniform and delays of a few
slots; electricity that swings once a day.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import numpy as np

from auctune.domain import Cluster, InputError, Money, Node, NodeType, Quote, Task, round_money
from auctune.numerics.rng import stream
from auctune.sim.instance import Instance

Deadlines = Literal["tight", "medium", "loose"]

# A task's window is this many times the slots that it needs on its quickest type.
_SLACK = {"tight": (1.0, 2.0), "medium": (2.0, 5.0), "loose": (5.0, 15.0)}


@dataclass(frozen=True, slots=True)
class Device:
    """A node type's figures: samples per slot, memory in GB, power in kW at full load."""

    compute: float
    memory_gb: float
    power_kw: float


DEVICES: Mapping[str, Device] = {
    "a100": Device(compute=40_000.0, memory_gb=80.0, power_kw=0.40),
    "a40": Device(compute=16_000.0, memory_gb=48.0, power_kw=0.30),
}


@dataclass(frozen=True, slots=True)
class SyntheticParams:
    """A day of bids.

    Attributes:
        nodes: number of nodes by device name; the order of types is the order given.
        rate: mean number of bids a slot.
        slots, slot_seconds: the horizon.
        deadlines: how far a deadline lies behind the arrival.
        num_vendors: vendors that quote for a task whose data need work.
        needs_vendor: share of such tasks.
        value_median, value_sigma: of the log-normal value per sample, money.
        share: of a node's compute that one task takes at most.
        base_memory_gb: memory of the base model.
        price_per_mwh: mean price of electricity.
        seed: of everything drawn.
    """

    nodes: Mapping[str, int] = field(default_factory=lambda: {"a100": 50})
    rate: float = 50.0
    slots: int = 144
    slot_seconds: float = 600.0
    deadlines: Deadlines = "medium"
    num_vendors: int = 5
    needs_vendor: float = 0.5
    value_median: float = 2e-4
    value_sigma: float = 0.6
    share: float = 0.25
    base_memory_gb: float = 2.0
    price_per_mwh: float = 80.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.nodes:
            if name not in DEVICES:
                raise InputError(f"nodes.{name}", "is no device", f"one of {', '.join(DEVICES)}")
        if self.deadlines not in _SLACK:
            raise InputError("deadlines", f"{self.deadlines!r}", f"one of {', '.join(_SLACK)}")
        if self.num_vendors < 0 or not 0 <= self.needs_vendor <= 1:
            raise InputError("num_vendors", "vendors' terms are out of range", ">= 0, share <= 1")


def make_instance(params: SyntheticParams) -> Instance:
    """Draw a cluster and its bids, in order of arrival."""
    cluster = _cluster(params)
    rng = stream(params.seed, "bids")
    arrivals = np.repeat(np.arange(params.slots), rng.poisson(params.rate, params.slots))
    tasks = tuple(
        _task(params, cluster, f"task{index:06d}", int(arrival), rng)
        for index, arrival in enumerate(arrivals)
    )
    return Instance(cluster, tasks)


def _cluster(params: SyntheticParams) -> Cluster:
    day = 2 * math.pi * np.arange(params.slots) * params.slot_seconds / 86_400
    # Cheapest in the night, dearest in the early evening.
    price = params.price_per_mwh * (1 - 0.4 * np.cos(day - 2 * math.pi * 4 / 24))
    hours = params.slot_seconds / 3600
    types = {
        name: NodeType(
            device.compute * params.slot_seconds / 600,
            device.memory_gb,
            tuple((device.power_kw * hours * price / 1000).tolist()),
        )
        for name, device in DEVICES.items()
        if name in params.nodes
    }
    kinds = [name for name, count in params.nodes.items() for _ in range(count)]
    nodes = tuple(Node(f"{kind}-{index}", kind) for index, kind in enumerate(kinds))
    return Cluster(params.slots, params.slot_seconds, params.base_memory_gb, types, nodes)


def _task(
    params: SyntheticParams, cluster: Cluster, name: str, arrival: int, rng: np.random.Generator
) -> Task:
    work = float(rng.integers(5_000, 20_001) * rng.integers(1, 6))
    # A task alone reaches some part of a node's speed, by its batch size; its share caps it.
    alone = rng.uniform(0.1, 0.4)
    speed = min(alone, params.share)
    throughput = {kind: speed * node.compute for kind, node in cluster.node_types.items()}
    quotes = _quotes(params, rng) if rng.random() < params.needs_vendor else ()
    needed = math.ceil(work / max(throughput.values()))
    waiting = min((quote.delay for quote in quotes), default=0)
    window = math.ceil(needed * rng.uniform(*_SLACK[params.deadlines])) + waiting
    value = params.value_median * float(rng.lognormal(0.0, params.value_sigma))
    return Task(
        id=name,
        arrival=arrival,
        deadline=min(arrival + window - 1, cluster.slots - 1),
        work=work,
        memory_gb=round(float(rng.uniform(1.0, 4.0) + 12 * alone), 3),
        bid=_money(value * work + (float(quotes[0].price) if quotes else 0.0)),
        throughput=throughput,
        quotes=quotes,
    )


def _quotes(params: SyntheticParams, rng: np.random.Generator) -> tuple[Quote, ...]:
    prices = rng.uniform(0.2, 2.0, params.num_vendors)
    delays = rng.integers(0, 6, params.num_vendors)
    return tuple(
        Quote(f"vendor{i}", _money(float(price)), int(delay))
        for i, (price, delay) in enumerate(zip(prices, delays, strict=True))
    )


def _money(amount: float) -> Money:
    return max(round_money(amount), Decimal(0))
