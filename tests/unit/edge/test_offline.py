"""The offline optimum and the bound: against all that can be tried, above all that is played."""

import itertools
from dataclasses import replace

import pytest

from auctune.edge import (
    AntMan,
    ByDuration,
    EdgeEntry,
    EdgeJob,
    EdgeMarket,
    ErisEntry,
    ErisParams,
    Liquid,
    Site,
    Tiresias,
    offline_optimum,
    welfare_bound,
)
from auctune.edge.offline.program import ProgramBuilder
from auctune.numerics.highs import SolveOptions, solve
from auctune.numerics.rng import stream
from auctune.sim.edge.comparison import ledger_of, play
from auctune.sim.edge.instance_file import EdgeInstance
from support.edge_cases import small_job, small_market
from support.thorough import THOROUGH

ENTRIES: tuple[EdgeEntry, ...] = (
    ErisEntry(),
    ErisEntry(ErisParams("paper")),
    Tiresias(workers=3),
    AntMan(workers=3),
    Liquid(most_workers=6),
)


def small_instance(seed: int, num_jobs: int = 3) -> EdgeInstance:
    random = stream(seed, "edge offline")
    market = small_market(random)
    return EdgeInstance(
        market, tuple(small_job(random, market, f"j{index}") for index in range(num_jobs))
    )


@pytest.mark.parametrize("seed", range(60 if THOROUGH else 6))
def test_nothing_that_is_played_passes_the_optimum_nor_the_optimum_the_bound(seed: int) -> None:
    instance = small_instance(seed)
    jobs = instance.in_order()
    best = offline_optimum(instance.market, jobs)
    ledger_of(instance, best.decisions)
    assert best.optimal
    assert best.welfare == pytest.approx(best.bound, rel=1e-4, abs=1e-4)
    bound = welfare_bound(instance.market, jobs)
    whole = welfare_bound(instance.market, jobs, search=SolveOptions())
    assert best.welfare <= whole + 1e-6
    assert whole <= bound + 1e-4
    for entry in ENTRIES:
        assert play("one", entry, instance).welfare <= best.bound + 1e-6
    # What is left out of the window counts for the bound.
    short = offline_optimum(instance.market, jobs, tail=1)
    assert best.welfare <= short.bound + 1e-4
    assert short.welfare <= best.welfare + 1e-4


ONE_SITE = EdgeMarket(4, (Site("one", {"cpu": 2}),), 10, 1)


def unit_job(name: str, arrival: int, chunks: int, values: tuple[float, ...]) -> EdgeJob:
    return EdgeJob(
        id=name,
        arrival=arrival,
        epochs=1,
        chunks={"one": chunks},
        worker={"cpu": 1},
        server={},
        chunks_per_worker_slot=1,
        parameter_mb=0,
        utility=ByDuration(values),
    )


def test_the_optimum_is_what_trying_every_order_finds() -> None:
    # On one site, with servers that take nothing, jobs one after the other lose nothing.
    jobs = (
        unit_job("a", 0, 4, (9, 7, 3, 1)),
        unit_job("b", 0, 2, (8, 2, 2, 2)),
        unit_job("c", 1, 3, (6, 5, 4)),
    )
    best = offline_optimum(ONE_SITE, jobs)
    tried = 0.0
    for count in range(len(jobs) + 1):
        for order in itertools.permutations(jobs, count):
            tried = max(tried, sum(value_in_turn(order)))
    assert best.welfare == pytest.approx(tried)


def value_in_turn(order: tuple[EdgeJob, ...]) -> list[float]:
    """Values of jobs each of which takes the earliest units left, in this order."""
    free = [2] * ONE_SITE.slots
    values = []
    for job in order:
        missing, slot = job.num_chunks, job.arrival
        while missing and slot < len(free):
            used = min(missing, free[slot])
            free[slot] -= used
            missing -= used
            slot += 1
        values.append(0.0 if missing else job.value(slot - 1))
    return values


def test_an_instance_without_jobs_or_with_hopeless_ones_is_worth_nothing() -> None:
    assert welfare_bound(ONE_SITE, ()) == 0
    assert offline_optimum(ONE_SITE, ()).welfare == 0
    hopeless = replace(unit_job("a", 0, 1, (5,)), worker={"cpu": 3})
    assert welfare_bound(ONE_SITE, (hopeless,)) == 0
    best = offline_optimum(ONE_SITE, (hopeless,))
    assert best.welfare == best.bound == 0
    assert not best.decisions[0].admitted


def test_entries_that_are_there_twice_are_added_up() -> None:
    builder = ProgramBuilder()
    columns = builder.columns((2,), 1.0, 5.0, whole=False)
    row = builder.row([(columns, 1.0)], upper=6.0)
    builder.add(row, columns[0], 2.0)
    # maximize x + y, 3 x + y <= 6, both up to 5.
    assert solve(builder.build()).objective == pytest.approx(5 + 1 / 3)
