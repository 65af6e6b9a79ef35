"""Compile the kernels of all mechanisms ahead, where all later processes find them.

Each part has a mechanism decide on something small: kernels are compiled for types of arguments,
not for sizes. A part is one process, as a compiler keeps one core busy.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from auctune.auction.candidates import list_candidates
from auctune.auction.dual.scenarios import descend
from auctune.auction.pricing.exponential import price_cells
from auctune.auction.search.schedule_search import find_best
from auctune.domain.errors import InputError
from auctune.edge.search.forward import build_plan, plan_cost
from auctune.numerics.jit import is_compiled
from auctune.spot.batch.kernel import play_pool
from auctune.spot.window.expectation import choose
from auctune.timeshare.estimators import mixture, wls
from auctune.timeshare.rollout import first_of_best

_SLOTS = 48


@dataclass(frozen=True, slots=True)
class Part:
    """Kernels that are compiled together.

    Attributes:
        mechanism: for messages.
        compile: compiles them, and loads those that are compiled.
        kernels: those that are called from Python; all others are called by them.
    """

    mechanism: str
    compile: Callable[[], None]
    kernels: tuple[Callable[..., Any], ...]

    @property
    def is_compiled(self) -> bool:
        return is_compiled(*self.kernels)


def _decide_on_bids() -> None:
    from auctune.service.zones.auction.startup import synthetic_cluster, warm_up

    for pricing in ("learned", "exponential"):
        warm_up("pdftsp", {"pricing": pricing}, synthetic_cluster(1), lambda _: None)


def _learn_prices() -> None:
    from auctune.service.zones.auction.startup import synthetic_cluster, warm_up_learning

    warm_up_learning("pdftsp", {}, synthetic_cluster(1))


def _rent() -> None:
    from auctune.engine.spot.job_config import SpotStrategy, estimate
    from auctune.registry.policies import SPOT_POLICIES
    from auctune.spot import SpotJob, SpotMarket

    draw = np.random.default_rng(0)
    market = SpotMarket(draw.uniform(0.2, 0.8, _SLOTS), draw.integers(0, 4, _SLOTS))
    job = SpotJob(workload=3.0, deadline=4, n_max=2)
    for policy in SPOT_POLICIES.names():
        estimate(job, SpotStrategy(policy, "chain"), market)


def _play_policies() -> None:
    from auctune.spot import OnDemandOnly, SpotJob, SpotMarket, play_batch

    job = SpotJob(workload=1.0, deadline=2, n_max=1)
    market = SpotMarket(np.full(_SLOTS, 0.5), np.ones(_SLOTS, dtype=np.int64))
    play_batch([OnDemandOnly()], [job], [market], [None])


def _train_at_sites() -> None:
    from auctune.edge import ByDuration, EdgeJob, EdgeMarket, Eris, Site

    sites = tuple(Site(name, {"cpu": 4.0}) for name in ("a", "b"))
    eris = Eris(EdgeMarket(_SLOTS, sites, traffic_mb_per_slot=100.0, chunk_mb=1.0))
    job = EdgeJob(
        id="job",
        arrival=0,
        epochs=1,
        chunks={site.id: 2 for site in sites},
        worker={"cpu": 1.0},
        server={"cpu": 1.0},
        chunks_per_worker_slot=1.0,
        parameter_mb=0.1,
        utility=ByDuration((100.0, 50.0)),
    )
    eris.quote(job, 0)
    eris.offer(job, 0)


def _share_a_pool() -> None:
    from auctune.registry.policies import TIMESHARE_ALLOCATORS
    from auctune.sim.timeshare.comparison import compare_allocators
    from auctune.sim.timeshare.recorded import read_curves
    from auctune.sim.timeshare.table_bundles import draw_bundle
    from auctune.timeshare.named import DEFAULT_ALLOCATOR, EstimatorName

    named: list[tuple[str, dict[str, Any]]]
    named = [(name, {}) for name in TIMESHARE_ALLOCATORS.names()]
    named += [(DEFAULT_ALLOCATOR, {"estimator": name}) for name in get_args(EstimatorName)]
    allocators = [TIMESHARE_ALLOCATORS.build(name, settings) for name, settings in named]
    compare_allocators([draw_bundle(read_curves(), 2, 0)], allocators)


PARTS = (
    # The longest first.
    Part("auctions", _decide_on_bids, (find_best, list_candidates, price_cells)),
    Part("prices of auctions", _learn_prices, (descend,)),
    Part("spot instances", _rent, (choose,)),
    Part("pools of spot policies", _play_policies, (play_pool,)),
    Part("the edge", _train_at_sites, (build_plan, plan_cost)),
    Part("time sharing", _share_a_pool, (mixture.predict_all, wls.predict_all, first_of_best)),
)


def missing_parts() -> list[str]:
    """Return the mechanisms whose kernels this environment would still have to compile."""
    return [part.mechanism for part in PARTS if not part.is_compiled]


def compile_kernels() -> Iterator[str]:
    """Compile what is missing, in as many processes as there are cores; yield what is done.

    Raises:
        InputError: if the compiled code cannot be kept.
    """
    missing = {index: part for index, part in enumerate(PARTS) if not part.is_compiled}
    if not missing:
        return
    cores = len(os.sched_getaffinity(0))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(cores, len(missing)), spawn) as processes:
        parts = {processes.submit(_compile, index): part for index, part in missing.items()}
        for done in as_completed(parts):
            done.result()
            yield parts[done].mechanism
    if lost := missing_parts():
        found = f"keeps no compiled kernels of {', '.join(lost)}"
        raise InputError("cache of kernels", found, "a folder that can be written")


def _compile(index: int) -> None:
    PARTS[index].compile()
