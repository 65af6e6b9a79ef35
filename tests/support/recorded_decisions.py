"""Digests of what every mechanism decides on generated instances, payments to the last bit.

After a change that is meant to change decisions, from the repository root:

    OPENBLAS_CORETYPE=Haswell python tests/support/recorded_decisions.py \
        > tests/data/recorded_decisions.json
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import orjson

from auctune.auction import Pdftsp, PdftspParams
from auctune.auction.dual import lagrangian_bound
from auctune.domain import NodeLost, NodeReturned, Task
from auctune.edge import Eris
from auctune.edge.explain import explain
from auctune.numerics.experts import (
    AdaptiveGradient,
    Anytime,
    ExponentiatedGradient,
    FixedShare,
    KnownRounds,
    SlidingWindow,
    Weights,
)
from auctune.registry import mechanisms
from auctune.registry.policies import EDGE_ENTRIES, SPOT_POLICIES, TIMESHARE_ALLOCATORS
from auctune.sim.edge.settings import EdgeSetting, make_instance
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.outages import Outages
from auctune.sim.spot.forecasts import parse_forecaster
from auctune.sim.spot.generator import V100_MARKET
from auctune.sim.timeshare.recorded import SHIPPED, read_curves
from auctune.sim.timeshare.table_bundles import table_bundles
from auctune.sim.workloads.arrivals import Burst, BurstyArrivals, BurstyParams, Wave
from auctune.sim.workloads.synthetic import SyntheticParams
from auctune.sim.workloads.synthetic import make_instance as make_synthetic
from auctune.spot import (
    LinearScaling,
    Overhead,
    SpotJob,
    default_pool,
    offline_bound,
    offline_optimum,
    play,
    play_batch,
)
from auctune.spot.forecasts import make_forecasts
from support.markets import random_market
from support.windows import first_window, in_window, known_costs

# Bounds have the bits of one kernel of OpenBLAS, which differ between kinds of processors.
ENVIRONMENT = {"OPENBLAS_CORETYPE": "Haswell"}
RECORDED = Path(__file__).resolve().parents[1] / "data" / "recorded_decisions.json"

AUCTIONS: Mapping[str, PdftspParams] = {
    "exponential, max": PdftspParams(pricing="exponential", aggregate="max"),
    "exponential, sum": PdftspParams(pricing="exponential"),
    "exponential, set range": PdftspParams(
        pricing="exponential",
        compute_low=0.05,
        compute_high=2.0,
        memory_low=0.02,
        memory_high=1.0,
        payment="paper",
    ),
    "exponential, checked": PdftspParams(pricing="exponential", capacity="checked"),
    "paper": PdftspParams(pricing="paper", alpha=0.7, beta=0.4),
    "paper, as printed": PdftspParams(
        pricing="paper", alpha=0.7, beta=0.4, capacity="checked", payment="paper"
    ),
    "paper, sum": PdftspParams(pricing="paper", alpha=0.07, beta=0.04, aggregate="sum"),
    "learned": PdftspParams(),
    "learned, max": PdftspParams(capacity="checked", aggregate="max", payment="paper"),
}
RECORDED_POLICIES: Mapping[str, Mapping[str, str]] = {
    "ahap window=3": {"window": "3", "commitment": "2", "sigma": "0.6"},
    "ahap window=5": {"window": "5", "line": "slot_start"},
    "ahanp": {},
    "ahanp slot_start": {"line": "slot_start"},
    "od-only": {},
    "msu": {},
    "up": {},
    "robust": {"risk": "1"},
    "robust persistence=0.9": {"persistence": "0.9", "risk": "1"},
    "robust risk=0.1": {"risk": "0.1", "cost_cap": "30"},
}
FORECASTERS = ("perfect", "seasonal:season=12", "noisy:error=0.4:noise=heavy")


def digests() -> Iterator[tuple[str, str]]:
    """Yield the name of each case and the digest of all that was decided in it."""
    yield from _auctions()
    yield from _edge()
    yield from _spot()
    yield from _timeshare()
    yield "experts", digest(_experts(), digits=9)


def digest(value: object, digits: int | None = None) -> str:
    """Return a digest of a value, floats and arrays to the last bit or to so many digits.

    Powers and exponentials differ in the last bits between processors (NumPy has several versions
    of each): what shows them as they are is compared to fewer digits.
    """
    found = hashlib.blake2b(digest_size=10)
    _feed(value if digits is None else _rounded(value, digits), found)
    return found.hexdigest()


def _rounded(value: Any, digits: int) -> Any:
    """Return a value as JSON has it, floats rounded to so many significant digits."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return json.loads(
        orjson.dumps(value, option=options, default=str),
        parse_float=lambda text: float(f"{float(text):.{digits}g}"),
    )


def _feed(value: object, into: Any) -> None:
    if isinstance(value, np.ndarray):
        into.update(f"{value.dtype}{value.shape}".encode())
        into.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, float | np.floating):
        into.update(float(value).hex().encode())
    elif isinstance(value, Enum):
        into.update(str(value.value).encode())
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _feed(getattr(value, field.name), into)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _feed(key, into)
            _feed(inner, into)
    elif isinstance(value, list | tuple):
        into.update(b"[")
        for inner in value:
            _feed(inner, into)
        into.update(b"]")
    elif isinstance(value, str | int | bool | Decimal | np.integer | np.bool_ | None):
        into.update(repr(value).encode() + b";")
    else:
        raise TypeError(f"no digest of {type(value)}")


def _markets() -> Iterator[tuple[str, Instance]]:
    for seed in range(3):
        rng = np.random.default_rng(1000 + seed)
        yield (
            f"random market {seed}",
            random_market(rng, slots=16, nodes=4 + seed, num_tasks=60, max_types=1 + seed),
        )
    yield (
        "synthetic",
        make_synthetic(
            SyntheticParams(nodes={"a100": 3, "a40": 3}, rate=4, slots=36, num_vendors=3)
        ),
    )


def _auctions() -> Iterator[tuple[str, str]]:
    for where, market in _markets():
        for name, params in AUCTIONS.items():
            yield f"pdftsp, {name}, {where}", digest(_pdftsp(market, params))
        for name in ("eft", "ntm", "titan"):
            made = mechanisms.build(name, market.cluster)
            yield f"{name}, {where}", digest(simulate(market, made).decisions)
        bound = lagrangian_bound(market.cluster, market.tasks)
        yield f"dual, {where}", digest([bound.value, bound.lam, bound.phi])
    bursty = BurstyArrivals(
        BurstyParams(2000, waves=(Wave(0.4, 7200.0),), bursts=(Burst(0.3, 20.0, 600.0),))
    )
    yield "bursty arrivals", digest(bursty.draw(144, 600.0, np.random.default_rng(4)).slot)
    for name in ("exponential, max", "exponential, sum", "learned"):
        yield f"rolling, {name}", digest(_rolling(AUCTIONS[name]))


def _pdftsp(market: Instance, params: PdftspParams) -> list[object]:
    """Decisions with menus, plans after an outage, and the prices at the end."""
    mechanism = Pdftsp(market.cluster, params)
    outages = Outages(
        market.cluster,
        (NodeLost(market.cluster.nodes[0].id, 5), NodeReturned(market.cluster.nodes[0].id, 9)),
    )
    seen: list[object] = []
    for slot in range(market.cluster.slots):
        seen.extend(outages.begin(mechanism, slot))
        for index, task in enumerate(market.tasks):
            if task.arrival == slot:
                if index % 7 == 0:
                    seen.append(mechanism.quote(task, slot))
                decision = mechanism.offer(task, slot)
                outages.admitted(task, decision)
                seen.append(decision)
                if index % 11 == 0 and decision.admitted:
                    seen.append(mechanism.explain(task, decision, slot))
    state = mechanism.state()
    return [*seen, state]


def _rolling(params: PdftspParams) -> list[object]:
    market = random_market(np.random.default_rng(7), slots=40, num_tasks=80)
    rolling = Pdftsp(first_window(market.cluster), params, energy=known_costs(market.cluster))
    seen: list[object] = []
    for task in market.tasks:
        mine: Task = in_window(task)
        seen.append(rolling.offer(mine, task.arrival))
    state = rolling.state()
    return [*seen, state]


def _edge() -> Iterator[tuple[str, str]]:
    setting = EdgeSetting(num_sites=6, num_jobs=14, slots=50, arrival_slots=15, seed=3)
    instance = make_instance(setting)
    jobs = instance.in_order()
    for label, settings in (
        ("eris", {}),
        ("eris:paper", {"pricing": "paper"}),
        ("tiresias", {"workers": "8"}),
        ("antman", {"workers": "8"}),
        ("liquid", {}),
    ):
        entry = EDGE_ENTRIES.build(label.split(":")[0], settings)
        yield f"edge, {label}", digest(entry.play(instance.market, jobs))
    eris = Eris(instance.market)
    reasons = []
    for job in jobs:
        decision = eris.preview(job, job.arrival)
        reasons.append(explain(eris, job, decision if decision.admitted else None, job.arrival))
        assert eris.offer(job, job.arrival) == decision
    yield "edge, explanations", digest(reasons, digits=9)


def _spot() -> Iterator[tuple[str, str]]:
    market = V100_MARKET.market(160, 5)
    yield "spot, generated market", digest([market.price, market.available])
    jobs = (
        SpotJob(workload=40, deadline=9, n_max=8, value=90),
        SpotJob(
            workload=33.3,
            deadline=7,
            n_min=2,
            n_max=9,
            value=70,
            scaling=LinearScaling(0.9, 0.3),
            overhead=Overhead(0.7, 0.8),
        ),
    )
    for number, job in enumerate(jobs):
        for start in (60, 101):
            cut = market.between(start, start + job.deadline)
            best = offline_optimum(job, cut)
            yield f"spot, optimum, job {number} at {start}", digest([best, offline_bound(job, cut)])
        for forecaster in FORECASTERS:
            made = parse_forecaster(forecaster, "").forecaster(market, 4)
            forecasts = make_forecasts(made, market, 60, job.deadline, job.deadline - 1)
            cut = market.between(60, 60 + job.deadline)
            played = []
            for label, settings in RECORDED_POLICIES.items():
                policy = SPOT_POLICIES.build(label.split()[0], settings)
                played.append(play(policy, job, cut, forecasts))
            yield f"spot, job {number}, {forecaster}", digest(played)
            pool = default_pool()[::9]
            batch = play_batch(pool, [job], [cut], [forecasts])
            yield f"spot, pool, job {number}, {forecaster}", digest(batch)


def _timeshare() -> Iterator[tuple[str, str]]:
    curves = read_curves(SHIPPED)
    for bundle in table_bundles(curves)[:3]:
        for name in TIMESHARE_ALLOCATORS.names():
            allocator = TIMESHARE_ALLOCATORS.build(name, {})
            yield f"timeshare, {name}, {bundle.name}", digest(bundle.play(allocator))
        for name, settings in (
            ("lara", {"unit": "time"}),
            ("rollout", {"estimator": "ls"}),
            ("rollout", {"estimator": "m4", "spread": "0.9"}),
            ("laira", {"look_ahead": "false"}),
        ):
            allocator = TIMESHARE_ALLOCATORS.build(name, settings)
            label = ", ".join([name, *settings.values(), bundle.name])
            yield f"timeshare, {label}", digest(bundle.play(allocator))
        yield f"timeshare, optimum, {bundle.name}", digest([bundle.optimum(), bundle.attainable()])


def _experts() -> list[object]:
    utilities = np.random.default_rng(9).uniform(size=(40, 7))
    learners: tuple[Weights, ...] = (
        ExponentiatedGradient(7, KnownRounds(40)),
        ExponentiatedGradient(7, Anytime()),
        FixedShare.tuned(7, 40, 3),
        SlidingWindow(7, 0.4, 9),
        AdaptiveGradient(7),
    )
    seen: list[object] = []
    for row in utilities:
        for learner in learners:
            learner.update(row)
            seen.append(learner.weights.copy())
    return seen


if __name__ == "__main__":
    print(json.dumps(dict(digests()), indent=1))
