"""Real runs on this machine and on a cluster, of which a site is lost within a slot.

A run serves several tests: its processes are heavy.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.domain.money import ZERO
from auctune.edge import EdgeJob, ErisParams
from auctune.engine.edge import slot_run
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.inputs import EdgeRunInputs, EdgeTraining
from auctune.engine.edge.ray_sites import RaySites, node_resources
from auctune.engine.edge.sites import Sites, open_sites
from auctune.engine.edge.slot_run import PlacedWorker, SlotRun, SlotTask
from auctune.engine.edge.storage import ChunkStorage, StoredChunk
from auctune.engine.elastic.errors import SlotError, read_failure
from auctune.engine.elastic.gradient_worker import dump_rows, gradient_worker, load_rows
from auctune.engine.elastic.reducer import reducer_worker
from auctune.engine.runtime.ray.driver import RayDriver
from auctune.engine.runtime.ray.local_cluster import LocalCluster
from auctune.engine.runtime.requests import RequestWorker
from auctune.standalone.edge import EdgeRunFolder, begin_run, open_run
from auctune.standalone.edge_report import EdgeRunReport
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import ChunkRows, slot_batches
from support.edge_runs import (
    MARKET,
    Logged,
    StoppedError,
    Stopping,
    Watcher,
    job_chunks,
    make_inputs,
    make_job,
    make_training,
    read_log,
    train_plan,
)
from support.waits import poll

pytestmark = pytest.mark.slow

ON_RAY = pytest.param("ray", marks=pytest.mark.ray)

LOST_IN = 1
NODES = {site.id: node_resources(site) for site in MARKET.sites}


Kill = Callable[[str], None]
"""Cuts the power of a site."""


@contextmanager
def opened(kind: str, folder: EdgeFolder) -> Iterator[tuple[Sites, Kill]]:
    """Sites of this machine, or of a cluster."""
    if kind == "local":
        with open_sites(MARKET.sites, "", "ray", folder) as sites:
            processes = json.loads(folder.sites.read_bytes())["processes"]
            yield sites, lambda site: os.kill(processes[site], signal.SIGKILL)
        return
    with LocalCluster(NODES) as cluster:
        driver = RayDriver()
        yield RaySites(list(NODES), driver), cluster.kill
        driver.close()


KINDS = pytest.mark.parametrize("kind", ["local", ON_RAY])


STEPS_BEFORE = 5
"""Steps of the slot that are taken before its site is lost."""


class LosingSite(Watcher):
    """Cuts the power of a site while a slot is trained: between two of its steps."""

    def __init__(self, sites: Sites, kill: Kill) -> None:
        super().__init__()
        self._sites, self._kill = sites, kill
        self.share: float | None = None

    def batches(self, *args: Any) -> Iterator[Sequence[ChunkRows]]:
        """Yield the batches of a slot, as `slot_batches` does."""
        batches = list(slot_batches(*args))
        for number, batch in enumerate(batches):
            if self.slot == LOST_IN and number == STEPS_BEFORE:
                self.share = number / len(batches)
                self._kill("b")
                # Its workers compute until it is noticed: on a fast machine, the whole slot.
                poll(lambda: "b" not in self._sites.alive(), "the lost site to be noticed")
            yield batch


@dataclass(frozen=True)
class Ran:
    inputs: EdgeRunInputs
    report: EdgeRunReport
    logged: Logged
    state: Checkpoint
    share: float


@pytest.fixture(scope="module", params=["local", ON_RAY])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = EdgeRunFolder(tmp_path_factory.mktemp("edge"))
    inputs = make_inputs(tmp_path_factory.mktemp("inputs"), make_job(epochs=6), rows_per_chunk=12)
    begin_run(inputs, folder)
    with opened(request.param, folder) as (sites, kill):
        watcher = LosingSite(sites, kill)
        with pytest.MonkeyPatch.context() as patch, open_run(folder, watcher) as run:
            patch.setattr(slot_run, "slot_batches", watcher.batches)
            run.run(sites)
            report = run.report()
    logged = read_log(folder)
    state = folder.read_checkpoint("job", logged.state.ended["job"].steps)
    assert watcher.share is not None
    assert state is not None
    return Ran(inputs, report, logged, state, watcher.share)


def test_a_job_goes_on_elsewhere_from_the_slot_in_which_its_site_was_lost(ran: Ran) -> None:
    (bill,) = ran.report.jobs
    promised, ended = ran.logged.answer("job").plan, ran.logged.state.ended["job"]
    assert promised is not None
    assert promised.slots[LOST_IN].workers["b"] > 0
    assert 0 < ran.share < 1
    assert ran.report.lost == {"b": LOST_IN + 1}
    assert (bill.state, bill.lost_slots, bill.refund) == ("done", 1, ZERO)
    assert LOST_IN not in ended.trained
    later = ended.plan.since(LOST_IN).slots
    assert later
    assert all(set(part.workers) == {"a"} and part.server == "a" for part in later)


def test_weights_are_those_of_one_worker_whoever_computed_them(ran: Ran) -> None:
    ended = ran.logged.state.ended["job"]
    workers = {tuple(part.workers.items()) for part in ended.plan.slots}
    assert len(workers) > 1
    alone = train_plan(ended, ran.inputs.trainings["job"])
    np.testing.assert_array_equal(ran.state.tensors["adapter"], alone.tensors["adapter"])
    outcomes = ran.logged.outcomes("job")
    *_, untrained, _ = outcomes[0]["losses"][0]
    assert outcomes[-1]["validation_loss"] < untrained / 2


def test_traffic_that_crossed_is_what_the_plan_counts(ran: Ran) -> None:
    (bill,) = ran.report.jobs
    crossed = sum(outcome["chunks_crossed"] for outcome in ran.logged.outcomes("job"))
    assert bill.planned_mb > 0
    assert bill.counted_mb == pytest.approx(bill.planned_mb)
    assert crossed > 0
    assert bill.chunk_mb > 0


def load_all(storage: ChunkStorage, job: EdgeJob, training: EdgeTraining) -> None:
    for _ in range(120):
        if storage.load(job, training):
            return
        wait(storage.pending(job.id), 0.5)
    raise AssertionError("rows are not loaded")


@KINDS
def test_rows_of_a_lost_site_are_read_at_another_unless_they_may_not_move(
    tmp_path: Path, kind: str
) -> None:
    job = make_job(1)
    training = make_training(tmp_path, job)
    chunks = job_chunks(job, training)
    folder, alive = EdgeFolder(tmp_path / "run"), {"a", "b"}
    with opened(kind, folder) as (sites, kill):
        kept = replace(training, may_move=False)
        storage, other = ChunkStorage(folder, sites, alive), replace(job, id="other")
        load_all(storage, other, kept)
        assert len(storage.get("other", [*range(18)])) == 18
        (tmp_path / "changing").mkdir()
        changing, moved = replace(job, id="changing"), make_training(tmp_path / "changing", job)
        load_all(storage, changing, moved)
        with Path(moved.rows["b"]).open("a") as rows:
            rows.write("\n")
        kill("b")
        # It is not yet known to be lost, and holds up no other site.
        assert not storage.load(job, training)
        poll(lambda: "b" not in sites.alive(), "the lost site to be noticed")
        alive.discard("b")
        storage.on_site_lost("b")
        for one, how in ((job, training), (other, kept), (changing, moved)):
            load_all(storage, one, how)
        for stored in (*storage.get("job", [0, 17]), *storage.get("other", [0])):
            assert load_rows(sites.fetch(stored.content)) == chunks[stored.chunk]
        # Rows of other sites stay; a file with another content is not read in their place.
        for name in ("other", "changing"):
            assert len(storage.get(name, [0])) == 1
            with pytest.raises(SlotError, match="no place now") as lost:
                storage.get(name, [17])
            assert lost.value.rows_lost
        # A store may have read the rows of several sites.
        assert {one.host for one in storage.get("job", [17])} == {"a"}
        # What was read first is on record: a later process does not train on other rows.
        resumed = ChunkStorage(folder, sites, {"a"})
        with Path(training.rows["a"]).open("a") as rows:
            rows.write("\n")
        with pytest.raises(InputError, match=r"rows\.a: has changed"):
            load_all(resumed, job, training)


@KINDS
def test_a_run_goes_on_without_a_site_that_was_lost_while_no_driver_ran(
    tmp_path: Path, kind: str
) -> None:
    """What was trained of the slot stands, and a job that needs rows of the site is refunded."""
    job = replace(
        make_job(1),
        chunks={"a": 4, "b": 4},
        server={},
        worker={"cpu": 0.6},
        parameter_mb=0,
    )
    inputs = make_inputs(tmp_path, job, replace(job, id="other"), replace(job, id="tied"))
    inputs = replace(inputs, params=ErisParams(worth=1))
    tied = replace(inputs.trainings["tied"], may_move=False)
    inputs = replace(inputs, trainings={**inputs.trainings, "tied": tied})
    folder = EdgeRunFolder(tmp_path / "run")
    folder.root.mkdir()
    begin_run(inputs, folder)
    with opened(kind, folder) as (sites, kill):
        with open_run(folder, Stopping()) as run, pytest.raises(StoppedError):
            run.run(sites)
        kill("b")
        poll(lambda: "b" not in sites.alive(), "the lost site to be noticed")
        jobs = read_log(folder).state.jobs
        assert sum(0 in job.trained for job in jobs.values()) == 1
        begins = {name: job.plan.slots[0].slot for name, job in jobs.items()}
        assert begins == {"job": 0, "other": 0, "tied": 1}
        # Either of the two that begin may have ended first; only one of them is at b too.
        (waits,) = (name for name in ("job", "other") if 0 not in jobs[name].trained)
        part = jobs[waits].slot_plan(0)
        assert part is not None
        needs_lost_site = "b" in {part.server, *part.workers}
        with open_run(folder, Watcher()) as run:
            run.run(sites)
            report = run.report()
    assert report.lost == {"b": 1}
    bills = {bill.job: bill for bill in report.jobs}
    for name in ("job", "other"):
        assert bills[name].state == "done"
        ended = read_log(folder).state.ended[name]
        assert sum(part.chunks for part in ended.plan.slots) == 8
    lost_slots = {name: bills[name].lost_slots for name in ("job", "other")}
    assert lost_slots == {"job": 0, "other": 0} | {waits: int(needs_lost_site)}
    assert (bills["tied"].state, bills["tied"].refund) == ("refunded", bills["tied"].payment)
    assert bills["tied"].payment > 0


def test_no_worker_computes_before_all_have_their_chunks(tmp_path: Path) -> None:
    job = make_job(1)
    training, folder = make_training(tmp_path, job), EdgeFolder(tmp_path / "run")
    chunk = job_chunks(job, training)[0]
    with open_sites(MARKET.sites, "", "ray", folder) as sites:
        workers = [
            RequestWorker(partial(sites.start, site, {}, spec), read_failure)
            for site, spec in (
                ("a", gradient_worker(training.worker_settings("cpu"))),
                ("b", gradient_worker(training.worker_settings("cpu"))),
                ("a", reducer_worker(training.config)),
            )
        ]
        # What the second one is sent it cannot load.
        contents = (dump_rows(chunk), np.frombuffer(b"no rows", np.uint8))
        placed = [
            PlacedWorker(worker, site, [StoredChunk(number, site, site, content, 1)])
            for number, (worker, site, content) in enumerate(
                zip(workers, ("a", "b"), contents, strict=False)
            )
        ]
        task = SlotTask(
            training=training,
            state=None,
            total_rows=100,
            workers=placed,
            server=workers[2],
            server_site="a",
        )
        with pytest.raises(SlotError, match="JSONDecodeError"):
            SlotRun(task, sites.fetch).result.result()
