"""Slots of jobs at sites, on real Ray nodes: late starts, and errors of one job.

One cluster serves all tests: its processes are heavy.
"""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.edge import ByDuration, EdgeJob, Move, Site, SlotPlan
from auctune.engine.edge.actors import RowProgress
from auctune.engine.edge.cluster import node_resources
from auctune.engine.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.engine.edge.errors import describe, is_transient
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.site_trainer import (
    JobFailed,
    SiteTrainer,
    SlotLost,
    SlotTrained,
)
from auctune.engine.edge.storage import assign_chunks
from auctune.engine.runtime.ray import local_cluster
from auctune.engine.runtime.ray.local_cluster import LocalCluster
from support.chunk_training import train_alone
from support.edge_runs import job_chunks, make_training, make_worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
]

SITES = ("a", "b")
NODES = {site: node_resources(Site(site, {"cpu": 2.5})) | {"GPU": 1.0} for site in SITES}
PART = SlotPlan(0, {"a": 1, "b": 1}, "a", (Move("a", "a", 2), Move("b", "b", 2)))
BESIDE = replace(PART, workers={"b": 1}, server="b", moves=(Move("b", "b", 2),))


@dataclass
class Results:
    """Results of a trainer's slots, by job."""

    found: list[SlotTrained | SlotLost | JobFailed] = field(default_factory=list)

    def of(self, job: str) -> list[str]:
        kinds = {SlotTrained: "trained", SlotLost: "torn", JobFailed: "broken"}
        return [kinds[type(one)] for one in self.found if one.job == job]

    def why(self, job: str) -> str:
        return next(
            one.why for one in self.found if one.job == job and not isinstance(one, SlotTrained)
        )

    def outcome(self, job: str) -> SlotOutcome:
        return next(
            one.outcome for one in self.found if one.job == job and isinstance(one, SlotTrained)
        )


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
def results() -> Results:
    return Results()


@pytest.fixture
def trainer(cluster: LocalCluster, tmp_path: Path) -> Iterator[SiteTrainer]:
    folder = EdgeFolder(tmp_path / "work")
    found = SiteTrainer(folder, SITES, "cpu")
    yield found
    found.close()


def request_of(folder: Path, name: str, *, rows_per_chunk: int = 8, **more: Any) -> SlotRequest:
    """A slot of a job with rows at both sites: all of them."""
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
    place = folder / name
    place.mkdir()
    return SlotRequest(
        job=job, training=make_training(place, job, rows_per_chunk), part=PART, **more
    )


@dataclass
class Runner:
    """Runs slots, and keeps their results."""

    trainer: SiteTrainer
    results: Results

    def __call__(
        self,
        slot: int,
        *requests: SlotRequest,
        is_over: Callable[[str], bool] = lambda _: False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        for found in self.trainer.run_slot(slot, requests, is_over, meanwhile):
            self.results.found.append(found)


@pytest.fixture
def run(trainer: SiteTrainer, results: Results) -> Runner:
    return Runner(trainer, results)


def actors(trainer: SiteTrainer, job: str) -> set[str]:
    """Those of a job, by their ids."""
    found = trainer._actors[job]
    every = [*(one for here in found.workers.values() for one in here), found._server]
    return {one._actor_id.hex() for one in every if one is not None}


def test_actors_that_start_when_a_slot_is_over_train_the_next_one(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    late, beside = request_of(tmp_path, "late"), request_of(tmp_path, "beside")
    run(0, late, is_over=lambda _: True)
    assert (results.of("late"), results.why("late")) == (["torn"], "it was not finished in time")
    begun = actors(trainer, "late")
    assert len(begun) == 3
    # Another's slot in between leaves them where there is room.
    run(1, replace(beside, part=BESIDE))
    assert actors(trainer, "late") == begun
    run(2, late)
    assert results.of("late") == ["torn", "trained"]
    assert actors(trainer, "late") == begun
    assigned = assign_chunks(late.job, PART, {})
    numbers = [number for here in assigned.values() for number in here]
    training, chunks = late.training, job_chunks(late.job, late.training)
    alone = train_alone(
        training.config, training.micro_batch, make_worker(training), chunks, [numbers],
        sum(map(len, chunks)),
    )  # fmt: skip
    outcome = results.outcome("late")
    state = trainer._folder.read_checkpoint("late", outcome.steps)
    assert state is not None
    np.testing.assert_array_equal(state.weights, alone.weights)
    assert outcome.first_loss == outcome.losses[0][3]
    assert (outcome.samples, outcome.chunks) == (sum(map(len, chunks)), (0, 1, 2, 3))
    # Those of a slot that was trained go with it.
    run(3, replace(request_of(tmp_path, "last"), part=BESIDE))
    assert results.of("last") == ["trained"]
    assert not actors(trainer, "late")


def test_rows_and_seconds_of_a_slot_that_was_not_finished_are_reported(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    rows: dict[str, int] = {}
    trainer._on_progress = rows.update
    job = request_of(tmp_path, "long", rows_per_chunk=2000)
    run(0, job, is_over=lambda name: rows.get(name, 0) > 0)
    run(1, job, is_over=lambda _: True)
    (late, unknown) = results.found
    assert isinstance(late, SlotLost)
    assert late.late is not None
    assert late.late.rows == rows["long"]
    assert late.late.seconds > 0
    assert isinstance(unknown, SlotLost)
    assert unknown.late == RowProgress()


def test_actors_that_stand_still_are_replaced_after_some_slots(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    import ray

    half = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    job = replace(request_of(tmp_path, "stuck"), part=half)
    run(0, job)
    before = actors(trainer, "stuck")
    server = trainer._actors["stuck"]._server
    os.kill(ray.get(server.__ray_call__.remote(lambda _: os.getpid())), signal.SIGSTOP)
    for slot in range(1, 4):
        run(slot, job, is_over=lambda _: True)
        assert actors(trainer, "stuck") == before
    run(4, job, is_over=lambda _: True)
    run(5, job)
    assert results.of("stuck") == ["trained", "torn", "torn", "torn", "torn", "trained"]
    assert not actors(trainer, "stuck") & before


def test_actors_of_a_slot_that_came_to_nothing_sit_out_three_slots_of_others(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    late, beside = request_of(tmp_path, "late"), request_of(tmp_path, "beside")
    run(0, late, is_over=lambda _: True)
    begun, other = actors(trainer, "late"), replace(beside, part=BESIDE)
    for slot in range(1, 4):
        trainer.prestart([other])
        run(slot, other)
        assert actors(trainer, "late") == begun
    trainer.prestart([other])
    assert results.of("beside") == ["trained"] * 3
    assert not actors(trainer, "late")


def test_actors_that_are_in_the_way_of_others_are_ended(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    late, other = request_of(tmp_path, "late"), request_of(tmp_path, "other")
    run(0, late, is_over=lambda _: True)
    run(1, replace(other, part=replace(PART, workers={"a": 2}, moves=(Move("a", "a", 2),))))
    assert results.of("other") == ["trained"]
    assert not actors(trainer, "late")


def test_actors_of_the_next_slot_start_beside_one_that_goes_on(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    now, ahead = request_of(tmp_path, "now"), request_of(tmp_path, "ahead")
    seen: list[set[str]] = []

    def meanwhile() -> None:
        if not seen:
            trainer.prestart([replace(ahead, part=BESIDE)], beside=True)
            seen.append(actors(trainer, "ahead"))

    half = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    run(0, replace(now, part=half), meanwhile=meanwhile)
    assert results.of("now") == ["trained"]
    assert len(seen[0]) == 2
    run(1, replace(ahead, part=BESIDE))
    assert results.of("ahead") == ["trained"]
    assert actors(trainer, "ahead") == seen[0]


def test_a_server_that_ends_while_its_workers_find_no_place_holds_up_nobody(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    stuck, good = request_of(tmp_path, "stuck"), request_of(tmp_path, "good")
    part = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    stuck = replace(stuck, job=replace(stuck.job, worker={"cpu": 9.0}), part=part)

    killed: list[Any] = []

    def meanwhile() -> None:
        import ray

        if not killed:
            killed.append(trainer._actors["stuck"]._server)
            ray.kill(killed[0])

    def is_over(job: str) -> bool:
        return job == "stuck" and "trained" in results.of("good")

    run(0, stuck, replace(good, part=BESIDE), is_over=is_over, meanwhile=meanwhile)
    assert (results.of("stuck"), results.of("good")) == (["torn"], ["trained"])


def test_a_job_too_large_for_the_stores_has_its_slot_torn_and_no_other_s(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    large = request_of(tmp_path, "large")
    # More than the stores hold.
    long = "word1 " * 40_000
    for file in large.training.rows.values():
        Path(file).write_text(f'{{"text": "{long}"}}\n' * 500)
    small = request_of(tmp_path, "small")
    for slot in range(2):
        run(slot, large, small)
    assert results.of("large") == ["torn", "torn"]
    assert results.why("large") == "the sites have no room for its data now"
    assert results.of("small") == ["trained", "trained"]
    lost = [one for one in results.found if one.job == "large"]
    assert all(isinstance(one, SlotLost) and one.out_of_memory for one in lost)


def test_a_process_that_crashed_is_not_said_to_have_had_too_little_memory() -> None:
    from ray.exceptions import RayActorError

    common = "Some common causes include: (1) the process was killed due to high memory usage"
    crashed = RayActorError(error_msg=f"The actor died unexpectedly. {common}, (3) SIGSEGV")
    assert describe(crashed) == "a process that trained it ended, maybe for want of memory"
    assert describe(MemoryError()) == "there is too little memory for it now"
    assert is_transient(crashed)
    assert not is_transient(
        RayActorError(error_msg="The actor died because of an error in its init")
    )


def test_a_job_whose_file_is_gone_or_whose_workers_cannot_start_is_broken_alone(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    gone, good, unable = (request_of(tmp_path, name) for name in ("gone", "good", "unable"))
    Path(gone.training.rows["b"]).unlink()
    part = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    unable = replace(unable, part=part)
    trainer.prestart([unable])
    found = trainer._actors["unable"]
    found.release()
    found.device = "cuda:99"
    run(0, gone, replace(good, part=BESIDE), unable)
    assert results.of("gone") == ["broken"]
    assert "rows.b" in results.why("gone")
    assert results.of("good") == ["trained"]
    assert results.of("unable") == ["broken"]
    # It was not held up by the other's attempts.
    kinds = [one.job for one in results.found]
    assert kinds == ["gone", "good", "unable"]


def test_a_worker_that_takes_a_gpu_of_rays_sees_that_one_alone(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    import ray

    one = request_of(tmp_path, "one")
    trainer.prestart([one])
    found = trainer._actors["one"]
    found.release()
    found.num_gpus = 1.0
    run(0, one)
    assert results.of("one") == ["trained"]
    workers = [actor for actors in found.workers.values() for actor in actors]
    seen = ray.get([actor.__ray_call__.remote(lambda _: ray.get_gpu_ids()) for actor in workers])
    assert [len(ids) for ids in seen] == [1, 1]
