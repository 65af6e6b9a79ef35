"""Slots of jobs at sites of this machine and of a cluster: late starts, and errors of one job.

One cluster serves all tests: its processes are heavy.
"""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.edge import ByDuration, EdgeJob, Move, Site, SlotPlan
from auctune.engine.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.engine.edge.ray_sites import RaySites, node_resources
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.site_trainer import SiteTrainer
from auctune.engine.edge.sites import Sites, open_sites
from auctune.engine.edge.slot_run import RowProgress
from auctune.engine.edge.storage import assign_chunks
from auctune.engine.elastic.errors import read_failure, to_slot_error
from auctune.engine.messages.sites import JobFailed, SlotLost, SlotTrained
from auctune.engine.runtime.ray import local_cluster
from auctune.engine.runtime.ray.driver import RayDriver
from auctune.engine.runtime.ray.local_cluster import LocalCluster
from auctune.engine.runtime.requests import RequestWorker
from auctune.engine.runtime.worker import WorkerSpec
from support import visible_gpus
from support.chunk_training import train_alone
from support.edge_runs import job_chunks, make_training, make_worker
from support.waits import poll

pytestmark = pytest.mark.slow

ON_RAY = pytest.param("ray", marks=pytest.mark.ray)

SITES = [Site(name, {"cpu": 2.5}) for name in ("a", "b")]
NODES = {site.id: node_resources(site) | {"GPU": 1.0, "unit:gpu": 1000.0} for site in SITES}
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
def cluster_sites(cluster: LocalCluster) -> Iterator[RaySites]:
    driver = RayDriver()
    yield RaySites([site.id for site in SITES], driver)
    driver.close()


@pytest.fixture
def local_sites(tmp_path: Path) -> Iterator[Sites]:
    with open_sites(SITES, "", "ray", EdgeFolder(tmp_path / "work")) as sites:
        yield sites


@pytest.fixture(params=["local", ON_RAY])
def sites(request: pytest.FixtureRequest) -> Sites:
    """This machine, or the cluster, which is not started before it is needed."""
    name = "local_sites" if request.param == "local" else "cluster_sites"
    found: Sites = request.getfixturevalue(name)
    return found


ON_THIS_MACHINE = pytest.mark.parametrize("sites", ["local"], indirect=True)
ON_A_CLUSTER = pytest.mark.parametrize("sites", [ON_RAY], indirect=True)


@pytest.fixture
def trainer(sites: Sites, tmp_path: Path) -> Iterator[SiteTrainer]:
    found = SiteTrainer(EdgeFolder(tmp_path / "work"), sites, "cpu")
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


def workers(trainer: SiteTrainer, job: str) -> set[RequestWorker]:
    """Those of a job, with its server."""
    found = trainer._workers[job]
    every = [*(one for here in found.workers.values() for one in here), found.server]
    return {one for one in every if one is not None}


def test_workers_that_start_when_a_slot_is_over_train_the_next_one(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    late, beside = request_of(tmp_path, "late"), request_of(tmp_path, "beside")
    run(0, late, is_over=lambda _: True)
    assert (results.of("late"), results.why("late")) == (["torn"], "it was not finished in time")
    begun = workers(trainer, "late")
    assert len(begun) == 3
    # Another's slot in between leaves them where there is room.
    run(1, replace(beside, part=BESIDE))
    assert workers(trainer, "late") == begun
    run(2, late)
    assert results.of("late") == ["torn", "trained"]
    assert workers(trainer, "late") == begun
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
    np.testing.assert_array_equal(state.tensors["adapter"], alone.tensors["adapter"])
    assert outcome.first_loss == outcome.losses[0][3]
    assert (outcome.samples, outcome.chunks) == (sum(map(len, chunks)), (0, 1, 2, 3))
    # Those of a slot that was trained go with it.
    run(3, replace(request_of(tmp_path, "last"), part=BESIDE))
    assert results.of("last") == ["trained"]
    assert not workers(trainer, "late")


@ON_THIS_MACHINE
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
    # It may have trained more until it was cancelled.
    assert late.late.rows >= rows["long"]
    assert late.late.seconds > 0
    assert isinstance(unknown, SlotLost)
    assert unknown.late == RowProgress()


@ON_THIS_MACHINE
def test_workers_that_stand_still_are_replaced_after_some_slots(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    half = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    job = replace(request_of(tmp_path, "stuck"), part=half)
    run(0, job)
    before = workers(trainer, "stuck")
    server = trainer._workers["stuck"].server
    assert server is not None
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    for slot in range(1, 4):
        run(slot, job, is_over=lambda _: True)
        assert workers(trainer, "stuck") == before
    run(4, job, is_over=lambda _: True)
    run(5, job)
    assert results.of("stuck") == ["trained", "torn", "torn", "torn", "torn", "trained"]
    assert not workers(trainer, "stuck") & before


@ON_THIS_MACHINE
def test_workers_of_a_slot_that_came_to_nothing_sit_out_three_slots_of_others(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    late, beside = request_of(tmp_path, "late"), request_of(tmp_path, "beside")
    run(0, late, is_over=lambda _: True)
    begun, other = workers(trainer, "late"), replace(beside, part=BESIDE)
    for slot in range(1, 4):
        trainer.prestart([other])
        run(slot, other)
        assert workers(trainer, "late") == begun
    trainer.prestart([other])
    assert results.of("beside") == ["trained"] * 3
    assert not workers(trainer, "late")


def test_workers_that_are_in_the_way_of_others_are_ended(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    late, other = request_of(tmp_path, "late"), request_of(tmp_path, "other")
    run(0, late, is_over=lambda _: True)
    run(1, replace(other, part=replace(PART, workers={"a": 2}, moves=(Move("a", "a", 2),))))
    assert results.of("other") == ["trained"]
    assert not workers(trainer, "late")


def test_workers_of_the_next_slot_start_beside_one_that_goes_on(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    now, ahead = request_of(tmp_path, "now"), request_of(tmp_path, "ahead")
    seen: list[set[RequestWorker]] = []

    def meanwhile() -> None:
        if not seen:
            trainer.prestart([replace(ahead, part=BESIDE)], beside=True)
            seen.append(workers(trainer, "ahead"))

    half = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    run(0, replace(now, part=half), meanwhile=meanwhile)
    assert results.of("now") == ["trained"]
    assert len(seen[0]) == 2
    run(1, replace(ahead, part=BESIDE))
    assert results.of("ahead") == ["trained"]
    assert workers(trainer, "ahead") == seen[0]


@ON_A_CLUSTER
def test_a_server_that_ends_while_its_workers_find_no_place_holds_up_nobody(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    stuck, good = request_of(tmp_path, "stuck"), request_of(tmp_path, "good")
    part = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    stuck = replace(stuck, job=replace(stuck.job, worker={"cpu": 9.0}), part=part)

    killed: list[RequestWorker] = []

    def meanwhile() -> None:
        server = trainer._workers["stuck"].server
        if server is not None and not killed:
            killed.append(server)
            server.kill()

    def is_over(job: str) -> bool:
        return job == "stuck" and "trained" in results.of("good")

    run(0, stuck, replace(good, part=BESIDE), is_over=is_over, meanwhile=meanwhile)
    assert (results.of("stuck"), results.of("good")) == (["torn"], ["trained"])


@ON_A_CLUSTER
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


def test_an_error_is_told_to_the_owner_without_what_only_operators_are_to_see() -> None:
    told = {
        MemoryError(): "there is too little memory for it now",
        OSError(28, "No space left", "/secret"): "a file of it could not be read or written",
        KeyError("secret"): "what trained it ended with an error (KeyError)",
    }
    assert {error: str(to_slot_error(error)) for error in told} == told
    assert [to_slot_error(error).out_of_memory for error in told] == [True, False, False]


def test_a_job_whose_file_is_gone_or_whose_workers_cannot_start_is_broken_alone(
    trainer: SiteTrainer, run: Runner, results: Results, tmp_path: Path
) -> None:
    gone, good, unable = (request_of(tmp_path, name) for name in ("gone", "good", "unable"))
    Path(gone.training.rows["b"]).unlink()
    part = replace(PART, workers={"a": 1}, moves=(Move("a", "a", 2),))
    unable = replace(unable, part=part)
    trainer.prestart([unable])
    found = trainer._workers["unable"]
    found.release()
    found.device = "cuda:99"
    run(0, gone, replace(good, part=BESIDE), unable)
    assert results.of("gone") == ["broken"]
    assert "rows.b" in results.why("gone")
    assert results.of("good") == ["trained"]
    assert results.of("unable") == ["broken"]
    # It was not held up by the other's attempts.
    kinds = [one.job for one in results.found if one.job != "unable"]
    assert kinds == ["gone", "good"]


@ON_A_CLUSTER
def test_a_worker_on_a_gpu_sees_that_of_its_ray_node_alone(sites: Sites) -> None:
    spec = WorkerSpec(visible_gpus.__name__, {}, visible_gpus.MESSAGES, "cuda")
    worker = RequestWorker(partial(sites.start, "a", {"gpu": 1.0}, spec), read_failure)
    ready = poll(lambda: worker.ready)
    assert ready is not None
    assert ready.gpus == "0"
    with pytest.raises(InputError, match=r"worker\.gpu: is missing"):
        sites.start("a", {"cpu": 1.0}, spec, lambda _: None)
    worker.kill()
