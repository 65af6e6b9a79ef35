"""What is free at sites, as actors that wait for a later slot may have it."""

import pytest

from auctune.domain import InputError
from auctune.edge import ByDuration, EdgeJob, Move, Site, SlotPlan
from auctune.run.edge.resources import gpus_wanted, offered
from auctune.run.edge.room import Room

JOB = EdgeJob(
    id="job",
    arrival=0,
    epochs=1,
    chunks={"a": 2},
    worker={"cpu": 1.0},
    server={"cpu": 0.5},
    chunks_per_worker_slot=1.0,
    parameter_mb=0.1,
    utility=ByDuration((5.0,)),
)
PART = SlotPlan(0, {"a": 2}, "b", (Move("a", "a", 2),))


def room(**units: float) -> Room:
    return Room({name: offered(Site(name, {"cpu": count})) for name, count in units.items()})


def test_what_a_slot_needs_is_not_free_and_the_rest_is() -> None:
    free = room(a=3.0, b=1.0)
    free.take_part(JOB, PART)
    assert free.take("a", JOB.worker)
    assert not free.take("a", JOB.server)
    assert free.take("b", JOB.server)
    assert not free.take("b", JOB.server)


def test_what_did_not_fit_takes_nothing_unless_it_is_owed() -> None:
    free = room(a=1.5)
    assert not free.take("a", {"cpu": 2.0})
    assert free.take("a", JOB.worker)
    assert not free.take("a", JOB.worker, is_owed=True)
    assert not free.take("a", JOB.server)


def test_nothing_is_free_where_nobody_knows_what_is() -> None:
    assert not room(a=1.0).take("elsewhere", JOB.server)


def test_a_worker_on_a_gpu_takes_as_many_of_rays_gpus_as_it_has_units() -> None:
    assert gpus_wanted("cpu", {"cpu": 1.0, "gpu": 2.0}) == 0.0
    found = [gpus_wanted("cuda", {"gpu": units}) for units in (0.25, 1.0, 1.5, 4.0)]
    # Ray takes a share of one GPU, or whole ones.
    assert found == [0.25, 1.0, 1.0, 4.0]
    with pytest.raises(InputError, match=r"worker\.gpu: is missing"):
        gpus_wanted("cuda", {"cpu": 1.0})
