"""The two settings of Pang et al. (TMC 2024), section VI, made up from a seed.

What the paper gives: sites, jobs, slots, B, theta, f, the models of Table II, the ranges of worker
and server needs, epochs, and that the testbed's jobs arrive in its first 40 slots. What it does
not give is a field of `EdgeSetting`, drawn by `auctune.numerics.rng.stream`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.edge.job import MOST_CELLS, MOST_CHUNKS, EdgeJob, Logistic, check_most
from auctune.edge.market import EdgeMarket, Site
from auctune.files.parameter_text import parse_params
from auctune.numerics.rng import stream
from auctune.sim.edge.instance_file import EdgeInstance

SCALE, DECAY = 3000.0, 3.0
SIMULATED = {"gpu": 4.0, "cpu": 24.0, "ram_gb": 32.0}
# There are thirty kinds of needs: one that fits is drawn by then, if there is any.
_TRIES = 2000
TESTBED = {"gpu": 1.0, "cpu": 12.0, "ram_gb": 16.0}


@dataclass(frozen=True, slots=True)
class Model:
    """A row of Table II."""

    name: str
    chunks: int
    tensor_mb: float


MODELS = (
    Model("ResNet-50", 27, 97.4),
    Model("ResNet-101", 27, 169.9),
    Model("GoogLeNet", 115, 25.9),
    Model("LeNet", 115, 283.0),
    Model("AlexNet", 150, 237.9),
    Model("Inception-BN", 150, 42.9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSetting:
    """A made-up market and its jobs.

    Attributes:
        num_sites: R.
        num_jobs: I.
        slots: T.
        arrival_slots: jobs arrive uniformly in the first so many slots.
        gpu, cpu, ram_gb: capacity of each site.
        traffic_mb_per_slot: B.
        chunk_mb: theta.
        price_base: gamma of traffic and of all types.
        spread: of the Dirichlet draw that splits a job's chunks over the sites; large: evenly.
        num_workers: so many workers need `least_slots` to `most_slots` slots, which sets P_i.
        least_slots, most_slots: see `num_workers`.
        chunks: of every job; 0: those of its model in Table II.
        seed: of all draws.
    """

    num_sites: int = 50
    num_jobs: int = 100
    slots: int = 150
    arrival_slots: int = 150
    gpu: float = SIMULATED["gpu"]
    cpu: float = SIMULATED["cpu"]
    ram_gb: float = SIMULATED["ram_gb"]
    traffic_mb_per_slot: float = 20_000.0
    chunk_mb: float = 2.0
    price_base: float = 1000.0
    spread: float = 1.0
    num_workers: int = 8
    least_slots: int = 6
    most_slots: int = 12
    chunks: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_sites", "num_jobs", "slots", "arrival_slots", "num_workers"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 1")
        if self.arrival_slots > self.slots:
            raise InputError("arrival_slots", f"{self.arrival_slots}", f"{self.slots} at most")
        if not 1 <= self.least_slots <= self.most_slots:
            found = f"{self.least_slots} to {self.most_slots}"
            raise InputError("least_slots", found, "1 <= least_slots <= most_slots")
        check_most(self.num_sites, "num_sites", MOST_CELLS)
        check_most(self.num_jobs, "num_jobs", MOST_CELLS // self.num_sites)
        check_most(self.chunks, "chunks", MOST_CHUNKS)
        check_positive(self.spread, "spread", "a number > 0")
        for name in ("chunks", "seed"):
            if getattr(self, name) < 0:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 0")


SETTINGS: Mapping[str, Mapping[str, float]] = {
    "simulation": {},
    "testbed": {"num_sites": 9, "num_jobs": 10, "slots": 50, "arrival_slots": 40, **TESTBED},
}
"""What each of the paper's settings has otherwise than the defaults."""


def paper_testbed(**changes: float) -> EdgeSetting:
    """Return the testbed: nine machines, ten jobs in 50 slots; and what is otherwise."""
    return EdgeSetting(**{**SETTINGS["testbed"], **changes})  # type: ignore[arg-type]


def setting_of(name: str, changes: Mapping[str, str]) -> EdgeSetting:
    """Return a setting of the paper by its name, and what is otherwise, as text.

    Raises:
        InputError: for an unknown name or field, or a value that is not one.
    """
    if name not in SETTINGS:
        raise InputError("setting", f"{name!r} is not offered", f"one of {', '.join(SETTINGS)}")
    wanted = {key: repr(value) for key, value in SETTINGS[name].items()}
    slots = changes.get("slots")
    if slots is not None and "arrival_slots" not in changes:
        # Fewer slots than jobs arrive in by default: they arrive in all of them.
        wanted["arrival_slots"] = slots
    return parse_params(EdgeSetting, {**wanted, **changes})


def make_instance(setting: EdgeSetting) -> EdgeInstance:
    """Return the market and the jobs of a setting, by their arrival."""
    capacity = {"gpu": setting.gpu, "cpu": setting.cpu, "ram_gb": setting.ram_gb}
    sites = tuple(Site(f"site-{index:03}", capacity) for index in range(setting.num_sites))
    base = dict.fromkeys(("data", *capacity), setting.price_base)
    market = EdgeMarket(setting.slots, sites, setting.traffic_mb_per_slot, setting.chunk_mb, base)
    random = stream(setting.seed, "edge", "arrivals")
    arrivals = np.sort(random.integers(0, setting.arrival_slots, setting.num_jobs))
    jobs = tuple(
        _job(setting, market, index, int(arrival)) for index, arrival in enumerate(arrivals)
    )
    return EdgeInstance(market, jobs)


def _job(setting: EdgeSetting, market: EdgeMarket, index: int, arrival: int) -> EdgeJob:
    random = stream(setting.seed, "edge", "job", index)
    model = MODELS[random.integers(len(MODELS))]
    chunks = setting.chunks or model.chunks
    epochs = int(random.choice((20, 30)))
    shares = random.dirichlet(np.full(setting.num_sites, setting.spread))
    counts = random.multinomial(chunks, shares)
    num_slots = int(random.integers(setting.least_slots, setting.most_slots + 1))
    rate = epochs * chunks / (setting.num_workers * num_slots)
    worker = _worker(setting, random, rate, epochs)
    return EdgeJob(
        id=f"job-{index:04}",
        arrival=arrival,
        epochs=epochs,
        chunks={
            site: int(count) for site, count in zip(market.site_ids, counts, strict=True) if count
        },
        worker=worker,
        server=_needs(random),
        chunks_per_worker_slot=rate,
        parameter_mb=model.tensor_mb,
        utility=Logistic(SCALE * float(random.uniform(1, 2)), DECAY),
    )


def _worker(
    setting: EdgeSetting, random: np.random.Generator, rate: float, epochs: int
) -> dict[str, float]:
    for _ in range(_TRIES):
        worker = _needs(random)
        if _fits(worker, setting, rate, epochs):
            return worker
    found = f"hold no {-(-epochs // rate):.0f} workers, which one chunk needs"
    raise InputError("sites", found, "more cpu and ram_gb, more chunks or fewer slots of a job")


def _needs(random: np.random.Generator) -> dict[str, float]:
    return {
        "gpu": float(random.integers(0, 2)),
        "cpu": float(random.integers(1, 4)),
        "ram_gb": float(random.integers(2, 7)),
    }


def _fits(worker: dict[str, float], setting: EdgeSetting, rate: float, epochs: int) -> bool:
    """Return whether the workers of one chunk fit an empty site: else no plan could run the job."""
    wanted = -(-epochs // rate)
    capacity = {"gpu": setting.gpu, "cpu": setting.cpu, "ram_gb": setting.ram_gb}
    return all(wanted * units <= capacity[kind] for kind, units in worker.items())
