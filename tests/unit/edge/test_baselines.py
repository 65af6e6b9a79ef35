"""The baselines: what they promise is kept, and each does what its name says."""

from dataclasses import replace

import pytest

from auctune.domain import InputError
from auctune.edge import (
    AntMan,
    EdgeEntry,
    EdgeJob,
    EdgeMarket,
    ErisEntry,
    Liquid,
    Logistic,
    Site,
    Tiresias,
)
from auctune.sim.edge.comparison import play
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import EdgeSetting, make_instance

JOB = EdgeJob(
    id="a",
    arrival=0,
    epochs=1,
    chunks={"one": 8},
    worker={"cpu": 1},
    server={},
    chunks_per_worker_slot=1,
    parameter_mb=1,
    utility=Logistic(1000, 50),
)
MARKET = EdgeMarket(20, (Site("one", {"cpu": 4}),), 100, 1, {"data": 2, "cpu": 2})
ENTRIES: tuple[EdgeEntry, ...] = (ErisEntry(), Tiresias(workers=16), AntMan(workers=8), Liquid())


def finishes(entry: EdgeEntry, *jobs: EdgeJob, market: EdgeMarket = MARKET) -> list[int | None]:
    played = play("entry", entry, EdgeInstance(market, jobs))
    return [decision.finish for decision in played.decisions]


def test_every_plan_of_every_baseline_keeps_all_constraints() -> None:
    admitted = dict.fromkeys(ENTRIES, 0)
    for seed in range(2):
        setting = EdgeSetting(num_sites=6, num_jobs=10, slots=30, arrival_slots=10, seed=seed)
        for entry in ENTRIES:
            # `play` checks each plan beside those before it.
            played = play("entry", entry, make_instance(setting))
            admitted[entry] += played.num_admitted
            for decision in played.decisions:
                assert decision.utility is None or decision.payment <= decision.utility + 1e-4
    assert all(admitted.values())


def test_tiresias_serves_first_who_has_been_served_least() -> None:
    # After two slots of four workers the first job is in a later queue.
    late = replace(JOB, id="b", arrival=2, chunks={"one": 4})
    long = replace(JOB, chunks={"one": 16})
    assert finishes(Tiresias(workers=4, queue=8), long, late) == [4, 2]
    assert finishes(Tiresias(workers=4, queue=100), long, late) == [3, 4]


def test_tiresias_by_remaining_workload_serves_first_who_has_least_to_go() -> None:
    long = replace(JOB, chunks={"one": 16})
    late = replace(JOB, id="b", arrival=1, chunks={"one": 12})
    # After a slot of four workers both have twelve chunks left, and the earlier one goes on.
    assert finishes(Tiresias(workers=4, by="remaining"), long, late) == [3, 6]
    shorter = replace(late, chunks={"one": 8})
    assert finishes(Tiresias(workers=4, by="remaining"), long, shorter) == [5, 2]
    # By what was served, the first is the same queue as the other's when it begins, and goes on.
    assert finishes(Tiresias(workers=4, queue=100), long, shorter) == [3, 5]


def test_tiresias_drops_what_costs_more_than_it_is_worth() -> None:
    # It shares its site with the first, so that its workers have a price.
    poor = replace(JOB, id="b", utility=Logistic(0.001, 1))
    dear = replace(MARKET, price_base={"data": 1000, "cpu": 1000})
    assert finishes(Tiresias(workers=2), JOB, poor, market=dear)[1] is None


def test_guaranteed_jobs_keep_their_workers_and_others_take_what_is_left() -> None:
    second = replace(JOB, id="b", chunks={"one": 4})
    assert finishes(AntMan(workers=4, guaranteed=1.0), JOB, second) == [1, 2]
    # Nobody waits for all four: three of the first leave one for the second.
    assert finishes(AntMan(workers=3, guaranteed=0.0), JOB, second) == [2, 2]


def test_a_guaranteed_job_that_waited_long_takes_what_there_is() -> None:
    narrow = replace(JOB, worker={"cpu": 2})
    assert finishes(AntMan(workers=3, guaranteed=1.0, patience=2), narrow) == [5]


def test_liquid_has_more_workers_where_traffic_is_light() -> None:
    sites = tuple(Site(name, {"cpu": 4}) for name in ("one", "two", "three"))
    market = EdgeMarket(20, sites, 100, 1)
    job = replace(JOB, chunks={"one": 12})
    light, heavy = replace(job, parameter_mb=0.0), replace(job, parameter_mb=25.0)
    assert finishes(Liquid(weight=0.5), light, market=market) == [0]
    # A worker at another site would send a quarter of all that may cross.
    assert finishes(Liquid(weight=0.5), heavy, market=market) == [2]


def test_with_all_weight_on_the_network_liquid_stays_on_one_site() -> None:
    sites = tuple(Site(name, {"cpu": 4}) for name in ("one", "two"))
    played = play("liquid", Liquid(weight=1.0), EdgeInstance(EdgeMarket(40, sites, 100, 1), (JOB,)))
    plan = played.decisions[0].plan
    assert plan is not None
    assert all(list(part.workers) == [part.server] for part in plan.slots)


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Tiresias(workers=0), "workers"),
        (lambda: Tiresias(queue=0), "queue"),
        (lambda: AntMan(guaranteed=1.5), "guaranteed"),
        (lambda: AntMan(patience=-1), "patience"),
        (lambda: AntMan(workers=0), "workers"),
        (lambda: Liquid(weight=2), "weight"),
        (lambda: Liquid(most_workers=0), "most_workers"),
        (lambda: Liquid(most_workers=10**12), "most_workers"),
    ],
)
def test_a_baseline_names_what_is_wrong_with_it(make, place: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.place == place
