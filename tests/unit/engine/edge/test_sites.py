"""Units of sites that are free, and as resources of Ray."""

import pytest

from auctune.domain import InputError
from auctune.edge import ByDuration, EdgeJob, Move, Site, SlotPlan
from auctune.engine.edge.ray_sites import actor_resources, node_resources, worker_gpus
from auctune.engine.edge.sites import FreeResources, capacity_units

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


def room(**units: float) -> FreeResources:
    return FreeResources({name: capacity_units({"cpu": count}) for name, count in units.items()})


def test_what_a_slot_needs_is_not_free_and_the_rest_is() -> None:
    free = room(a=3.0, b=1.0)
    free.reserve_slot(JOB, PART)
    assert free.reserve("a", JOB.worker)
    assert not free.reserve("a", JOB.server)
    assert free.reserve("b", JOB.server)
    assert not free.reserve("b", JOB.server)


def test_what_did_not_fit_takes_nothing_unless_forced() -> None:
    free = room(a=1.5)
    assert not free.reserve("a", {"cpu": 2.0})
    assert free.reserve("a", JOB.worker)
    assert not free.reserve("a", JOB.worker, force=True)
    assert not free.reserve("a", JOB.server)


def test_nothing_is_free_where_nobody_knows_what_is() -> None:
    assert not room(a=1.0).reserve("elsewhere", JOB.server)


def test_a_worker_on_a_gpu_takes_as_many_of_rays_gpus_as_it_has_units() -> None:
    assert worker_gpus("cpu", {"cpu": 1.0, "gpu": 2.0}) == 0.0
    found = [worker_gpus("cuda", {"gpu": units}) for units in (0.25, 1.0, 1.5, 4.0)]
    # Ray takes a share of one GPU, or whole ones.
    assert found == [0.25, 1.0, 1.0, 4.0]
    with pytest.raises(InputError, match=r"worker\.gpu: is missing"):
        worker_gpus("cuda", {"cpu": 1.0})


def test_what_fits_a_site_fits_its_node() -> None:
    node = node_resources(Site("a", {"cpu": 1.0, "ram": 0.7}))
    # Seven times 0.1 is more than 0.7 in floats.
    actor = actor_resources("a", {"cpu": 1 / 7, "ram": 0.1, "gpu": 0.0})
    assert all(7 * units <= node[name] for name, units in actor.items())
    assert "unit:gpu" not in actor
