"""Slots of jobs at open sites, on real Ray nodes: late starts, and the troubles of one job.

One cluster serves all tests: its processes are heavy.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.edge import ByDuration, EdgeJob, Move, Site, SlotPlan
from auctune.run import local_cluster
from auctune.run.edge.resources import offered
from auctune.run.edge.trouble import in_words, is_passing
from auctune.run.local_cluster import LocalCluster
from auctune.run.open_sites.floor import Floor
from auctune.run.open_sites.folder import OpenSitesFolder
from auctune.run.open_sites.messages import SiteOrder, TrainingTerms
from auctune.run.open_sites.site_data import read_job_data
from auctune.train.edge.alone import Alone, compute_part
from auctune.train.edge.batches import slot_batches
from auctune.train.edge.descent import mean_loss
from support.edge_zones import images_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here: the extra `ray` has it"),
]

SITES = ("a", "b")
NODES = {site: offered(Site(site, {"cpu": 2.5})) | {"GPU": 1.0} for site in SITES}
PART = SlotPlan(0, {"a": 1, "b": 1}, "a", (Move("a", "a", 2), Move("b", "b", 2)))
BESIDE = replace(PART, workers={"b": 1}, server="b", moves=(Move("b", "b", 2),))


@dataclass
class Told:
    """What a floor says, by job."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, kind: str, **values: Any) -> None:
        self.messages.append({"kind": kind, **values})

    def of(self, job: str) -> list[str]:
        return [one["kind"] for one in self.messages if one.get("job") == job]

    def why(self, job: str) -> str:
        return next(str(one["why"]) for one in self.messages if one.get("job") == job)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two sites, whose stores have nowhere to go when they are full."""
    before = dict(local_cluster._SYSTEM)
    local_cluster._SYSTEM["local_fs_capacity_threshold"] = 0.0001
    with LocalCluster(NODES) as found:
        local_cluster._SYSTEM.clear()
        local_cluster._SYSTEM.update(before)
        yield found


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def floor(cluster: LocalCluster, told: Told, tmp_path: Path) -> Iterator[Floor]:
    found = Floor(OpenSitesFolder.at(tmp_path / "work"), SITES, "cpu", told)
    yield found
    found.close()


def order(folder: Path, name: str, *, samples: int = 16, side: int = 8, **more: Any) -> SiteOrder:
    """A slot of a job with data at both sites: all of them."""
    job = EdgeJob(
        id=name,
        arrival=0,
        epochs=1,
        chunks={"a": 2, "b": 2},
        worker={"cpu": 1.0},
        server={"cpu": 0.25},
        chunks_per_worker_slot=2.0,
        parameter_mb=0.1,
        utility=ByDuration((5.0,)),
    )
    files = {}
    for seed, site in enumerate(SITES):
        path = folder / f"{name}-{site}.npz"
        images = np.zeros((samples, side, side), np.uint8)
        path.write_bytes(images_file(seed, samples, **({} if side == 8 else {"images": images})))
        files[site] = str(path)
    terms = TrainingTerms(
        model="small", batch_size=8, micro_batch=8, learning_rate=0.05, momentum=0.9,
        weight_decay=0.0, seed=5, files=files, validation=None, classes=10,
    )  # fmt: skip
    return SiteOrder(job=job, terms=terms, part=PART, **more)


def run(
    floor: Floor, slot: int, *orders: SiteOrder, is_over: Callable[[str], bool] = lambda _: False
) -> None:
    floor.run_slot(slot, orders, is_over, lambda: None)


def actors(floor: Floor, job: str) -> set[str]:
    """Those of a job, by their ids."""
    crew = floor._crews.crews[job]
    found = [*(one for here in crew.workers.values() for one in here), crew._server]
    return {one._actor_id.hex() for one in found if one is not None}


def test_actors_that_start_when_a_slot_is_over_train_the_next_one(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    late, beside = order(tmp_path, "late"), order(tmp_path, "beside")
    run(floor, 0, late, is_over=lambda _: True)
    assert (told.of("late"), told.why("late")) == (["torn"], "it was not finished in time")
    begun = actors(floor, "late")
    assert len(begun) == 3
    # Another's slot in between leaves them where there is room.
    run(floor, 1, replace(beside, part=BESIDE))
    assert actors(floor, "late") == begun
    run(floor, 2, late)
    assert told.of("late") == ["torn", "trained"]
    assert actors(floor, "late") == begun
    data = read_job_data(late.job, late.terms)
    alone = Alone(data.maker, data.recipe, data.chunks)
    dealt = data.by_destination(PART, Counter())
    alone.train([number for numbers in dealt.values() for number in numbers], 1)
    state = floor._checkpoints.read("late", alone.state.steps, data.first_weights)
    np.testing.assert_array_equal(state.weights, alone.state.weights)
    first = next(slot_batches(data.recipe, data.sizes(range(4)), 1))
    data.maker.set_weights(data.first_weights)
    met = [compute_part(data.maker, data.recipe, part, data.chunks[part.chunk]) for part in first]
    (trained,) = (one for one in told.messages if (one["kind"], one["job"]) == ("trained", "late"))
    assert trained["outcome"]["first_loss"] == mean_loss(met)
    # Those of a slot that was trained go with it.
    run(floor, 3, replace(order(tmp_path, "last"), part=BESIDE))
    assert told.of("last") == ["trained"]
    assert not actors(floor, "late")


def test_actors_that_stand_still_are_replaced_after_some_slots(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    from ray._private.state import actors as known

    half = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    job = replace(order(tmp_path, "stuck"), part=half)
    run(floor, 0, job)
    before = actors(floor, "stuck")
    server = floor._crews.crews["stuck"]._server
    os.kill(known(server._actor_id.hex())["Pid"], signal.SIGSTOP)
    for slot in range(1, 4):
        run(floor, slot, job, is_over=lambda _: True)
        assert actors(floor, "stuck") == before
    run(floor, 4, job, is_over=lambda _: True)
    run(floor, 5, job)
    assert told.of("stuck") == ["trained", "torn", "torn", "torn", "torn", "trained"]
    assert not actors(floor, "stuck") & before


def test_actors_of_a_slot_that_came_to_nothing_sit_out_three_slots_of_others(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    late, beside = order(tmp_path, "late"), order(tmp_path, "beside")
    run(floor, 0, late, is_over=lambda _: True)
    begun, other = actors(floor, "late"), replace(beside, part=BESIDE)
    for slot in range(1, 4):
        floor.prepare([other])
        run(floor, slot, other)
        assert actors(floor, "late") == begun
    floor.prepare([other])
    assert told.of("beside") == ["trained"] * 3
    assert not actors(floor, "late")


def test_actors_that_are_in_the_way_of_others_are_ended(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    late, other = order(tmp_path, "late"), order(tmp_path, "other")
    run(floor, 0, late, is_over=lambda _: True)
    run(floor, 1, replace(other, part=replace(PART, workers={"a": 2}, moves=(Move("a", "a", 2),))))
    assert told.of("other") == ["trained"]
    assert not actors(floor, "late")


def test_actors_of_the_next_slot_start_beside_one_that_goes_on(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    now, ahead = order(tmp_path, "now"), order(tmp_path, "ahead")
    seen: list[set[str]] = []

    def meanwhile() -> None:
        if not seen:
            floor.expect([replace(ahead, part=BESIDE)])
            seen.append(actors(floor, "ahead"))

    half = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    floor.run_slot(0, [replace(now, part=half)], lambda _: False, meanwhile)
    assert told.of("now") == ["trained"]
    assert len(seen[0]) == 2
    run(floor, 1, replace(ahead, part=BESIDE))
    assert told.of("ahead") == ["trained"]
    assert actors(floor, "ahead") == seen[0]


def test_a_server_that_ends_while_its_workers_find_no_place_holds_up_nobody(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    stuck, good = order(tmp_path, "stuck"), order(tmp_path, "good")
    part = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    stuck = replace(stuck, job=replace(stuck.job, worker={"cpu": 9.0}), part=part)

    killed: list[Any] = []

    def meanwhile() -> None:
        import ray

        if not killed:
            killed.append(floor._crews.crews["stuck"]._server)
            ray.kill(killed[0])

    def is_over(job: str) -> bool:
        return job == "stuck" and "trained" in told.of("good")

    floor.run_slot(0, [stuck, replace(good, part=BESIDE)], is_over, meanwhile)
    assert (told.of("stuck"), told.of("good")) == (["torn"], ["trained"])


def test_a_job_too_large_for_the_stores_has_its_slot_torn_and_no_other_s(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    large = order(tmp_path, "large", samples=500, side=512)
    small = order(tmp_path, "small")
    for slot in range(2):
        run(floor, slot, large, small)
    assert told.of("large") == ["torn", "torn"]
    assert told.why("large") == "the sites have no room for its data now"
    assert told.of("small") == ["trained", "trained"]
    assert all(one["out_of_memory"] for one in told.messages if one.get("job") == "large")


def test_a_process_that_crashed_is_not_said_to_have_had_too_little_memory() -> None:
    from ray.exceptions import RayActorError

    common = "Some common causes include: (1) the process was killed due to high memory usage"
    crashed = RayActorError(error_msg=f"The actor died unexpectedly. {common}, (3) SIGSEGV")
    assert in_words(crashed) == "a process that trained it ended, maybe for want of memory"
    assert in_words(MemoryError()) == "there is too little memory for it now"
    assert is_passing(crashed)
    assert not is_passing(RayActorError(error_msg="The actor died because of an error in its init"))


def test_a_job_whose_file_is_gone_or_whose_workers_cannot_start_is_broken_alone(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    gone, good, unable = (order(tmp_path, name) for name in ("gone", "good", "unable"))
    Path(gone.terms.files["b"]).unlink()
    part = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    unable = replace(unable, part=part)
    floor.prepare([unable])
    crew = floor._crews.crews["unable"]
    crew.release(None)
    crew.device = "cuda:99"
    run(floor, 0, gone, replace(good, part=BESIDE), unable)
    assert told.of("gone") == ["broken"]
    assert "market.sites.b" in told.why("gone")
    assert told.of("good") == ["trained"]
    assert told.of("unable") == ["broken"]
    # It was not held up by the other's attempts.
    kinds = [one["job"] for one in told.messages]
    assert kinds == ["gone", "good", "unable"]


def test_a_worker_that_takes_a_gpu_of_rays_sees_that_one_alone(
    floor: Floor, told: Told, tmp_path: Path
) -> None:
    import ray

    one = order(tmp_path, "one")
    floor.prepare([one])
    crew = floor._crews.crews["one"]
    crew.release(None)
    crew.num_gpus = 1.0
    run(floor, 0, one)
    assert told.of("one") == ["trained"]
    workers = [actor for actors in crew.workers.values() for actor in actors]
    seen = ray.get([actor.__ray_call__.remote(lambda _: ray.get_gpu_ids()) for actor in workers])
    assert [len(ids) for ids in seen] == [1, 1]
