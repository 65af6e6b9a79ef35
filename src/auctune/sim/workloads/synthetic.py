"""Synthetic workloads in the manner of the paper (Zheng et al., ICPP 2024, section 5.1).

A day of 144 slots of 10 minutes; 5,000 to 20,000 samples and 1 to 5 epochs a task; A100 (80 GB)
and A40 (48 GB) nodes. When bids arrive, what electricity costs and what devices can do are objects
of their own. The paper does not disclose its valuations, device figures, vendors' terms and
electricity prices. Those here are parameters, with these defaults: a value per sample from a
log-normal distribution; vendors' prices uniform and delays of a few slots; electricity that swings
once a day.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

import numpy as np

from auctune.domain import Cluster, InputError, Money, Node, NodeType, Quote, Task, round_money
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.files.electricity import SlotCosts, slot_costs
from auctune.numerics.rng import stream
from auctune.sim.energy import DailySwing, Electricity
from auctune.sim.instance import Instance
from auctune.sim.workloads.arrivals import Arrivals, Arrived, PoissonArrivals
from auctune.sim.workloads.device import Device, shipped_devices

Deadlines = Literal["tight", "medium", "loose"]
Work = Literal["drawn", "log"]

# A task's window is this many times the slots that it needs on its quickest type.
_SLACK = {"tight": (1.0, 2.0), "medium": (2.0, 5.0), "loose": (5.0, 15.0)}


@dataclass(frozen=True, slots=True)
class SyntheticParams:
    """What is bid for, and on what.

    Attributes:
        nodes: number of nodes by device name; the order of types is that of `devices`.
        rate: mean number of bids a slot, where they arrive as `PoissonArrivals`.
        slots, slot_seconds: the horizon; it starts at midnight.
        deadlines: how far a deadline lies behind the arrival.
        num_vendors: vendors that quote for a task whose data need work.
        needs_vendor: share of such tasks.
        value_median, value_sigma: of the log-normal value per sample, money.
        share: of a node's compute that one task takes at most.
        base_memory_gb: memory of the base model; None: the most that a device in use says.
        price_per_mwh: mean price of electricity, USD, where it is a `DailySwing`.
        seed: of everything drawn.
        work: "drawn", or "log": the GPU time of the log's job, at the speed of the quickest device.
        devices: by name.
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
    base_memory_gb: float | None = None
    price_per_mwh: float = 80.0
    seed: int = 0
    work: Work = "drawn"
    devices: Mapping[str, Device] = field(default_factory=shipped_devices)

    def __post_init__(self) -> None:
        for name, count in self.nodes.items():
            if name not in self.devices:
                known = ", ".join(self.devices)
                raise InputError(f"nodes.{name}", "is no device", f"one of {known}")
            if count < 1:
                raise InputError(f"nodes.{name}", f"{count}", "a number of nodes >= 1")
        if not self.nodes:
            raise InputError("nodes", "are none", "one node at least")
        if self.slots < 1:
            raise InputError("slots", f"{self.slots}", "a number of slots >= 1")
        if self.deadlines not in _SLACK:
            raise InputError("deadlines", f"{self.deadlines!r}", f"one of {', '.join(_SLACK)}")
        if self.num_vendors < 0:
            raise InputError("num_vendors", f"{self.num_vendors}", "a number of vendors >= 0")
        if not 0 <= self.needs_vendor <= 1:
            raise InputError("needs_vendor", f"{self.needs_vendor}", "a share in [0, 1]")
        if not 0 < self.share <= 1:
            raise InputError("share", f"{self.share}", "a share in (0, 1]")
        check_count(self.seed, "seed", 0)
        check_positive(self.slot_seconds, "slot_seconds", "seconds > 0")
        for name in ("rate", "value_median", "value_sigma", "price_per_mwh"):
            check_finite(getattr(self, name), name, "a number >= 0")


def make_instance(
    params: SyntheticParams,
    arrivals: Arrivals | None = None,
    electricity: Electricity | None = None,
) -> Instance:
    """Draw a cluster and its bids, in order of arrival.

    Args:
        params: what is bid for, and on what.
        arrivals: when bids arrive; None: `PoissonArrivals` at `params.rate`.
        electricity: what it costs; None: a `DailySwing`. With prices that are given, the instance
            carries the real energy costs beside those that mechanisms see.

    Raises:
        InputError: if the horizon goes beyond what arrivals or electricity know, a device cannot
            work in such slots, or `params.work` asks for a log where there is none.
    """
    market, bids = make_stream(params, arrivals, electricity)
    return replace(market, tasks=tuple(bids))


def make_stream(
    params: SyntheticParams,
    arrivals: Arrivals | None = None,
    electricity: Electricity | None = None,
) -> tuple[Instance, Iterator[Task]]:
    """As `make_instance`, for more bids than are to be held: a market without them, and the bids,
    each drawn when it is asked for."""
    energy = _energy(params, electricity or DailySwing(params.price_per_mwh))
    cluster = _cluster(params, {name: costs.seen for name, costs in energy.items()})
    rng = stream(params.seed, "bids")
    source = arrivals or PoissonArrivals(params.rate)
    arrived = source.draw(params.slots, params.slot_seconds, rng)
    works = _works(params, cluster, arrived)
    bids = (
        _task(params, cluster, f"task{index:06d}", arrival, work, rng)
        for index, (arrival, work) in enumerate(zip(arrived.slot.tolist(), works, strict=True))
    )
    real = {name: costs.real for name, costs in energy.items()} if electricity else None
    return Instance(cluster, (), real), bids


def _energy(params: SyntheticParams, electricity: Electricity) -> dict[str, SlotCosts]:
    prices = electricity.prices(params.slots, params.slot_seconds)
    return {
        name: slot_costs(device.power_kw, prices, params.slot_seconds)
        for name, device in params.devices.items()
        if name in params.nodes
    }


def _cluster(params: SyntheticParams, energy: Mapping[str, tuple[float, ...]]) -> Cluster:
    types = {
        name: NodeType(
            params.devices[name].compute(params.slot_seconds), params.devices[name].memory_gb, costs
        )
        for name, costs in energy.items()
    }
    base_memory_gb = params.base_memory_gb
    if base_memory_gb is None:
        # One zone has one base; where its activations differ by device, the largest counts.
        base_memory_gb = max(params.devices[name].base_memory_gb for name in types)
    kinds = [name for name, count in params.nodes.items() for _ in range(count)]
    nodes = tuple(Node(f"{kind}-{index}", kind) for index, kind in enumerate(kinds))
    return Cluster(params.slots, params.slot_seconds, base_memory_gb, types, nodes)


def _works(params: SyntheticParams, cluster: Cluster, arrived: Arrived) -> list[float | None]:
    """Samples of each task; None where they are to be drawn."""
    if params.work == "drawn":
        return [None] * len(arrived.slot)
    if arrived.gpu_seconds is None:
        raise InputError("work", "'log' without a job log", "'drawn', or arrivals from a log")
    speed = max(kind.compute for kind in cluster.node_types.values()) / params.slot_seconds
    # A job of no time at all still asked for something.
    return [max(1.0, seconds * speed) for seconds in arrived.gpu_seconds.tolist()]


def _task(
    params: SyntheticParams,
    cluster: Cluster,
    name: str,
    arrival: int,
    work: float | None,
    rng: np.random.Generator,
) -> Task:
    drawn = float(rng.integers(5_000, 20_001) * rng.integers(1, 6))
    samples = drawn if work is None else work
    batch = rng.random()
    devices = {kind: params.devices[kind] for kind in cluster.node_types}
    work = samples * max(device.sample_cost(batch) for device in devices.values())
    throughput = {
        kind: device.throughput(params.slot_seconds, batch, params.share)
        for kind, device in devices.items()
    }
    quotes = _quotes(params, rng) if rng.random() < params.needs_vendor else ()
    needed = math.ceil(work / max(throughput.values()))
    waiting = min((quote.delay for quote in quotes), default=0)
    window = math.ceil(needed * rng.uniform(*_SLACK[params.deadlines])) + waiting
    value = params.value_median * float(rng.lognormal(0.0, params.value_sigma))
    rank = rng.random()
    memory_gb = max(device.task_memory_gb(batch, rank) for device in devices.values())
    return Task(
        id=name,
        arrival=arrival,
        deadline=min(arrival + window - 1, cluster.slots - 1),
        work=work,
        memory_gb=round(memory_gb, 3),
        bid=_money(value * samples + (float(quotes[0].price) if quotes else 0.0)),
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
