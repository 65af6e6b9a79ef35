"""A real run on a local Ray cluster, of which a site is lost within a slot.

One cluster and one run serve all tests: their processes are heavy.
"""

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.domain.money import ZERO
from auctune.edge import EdgeJob, ErisParams, Site
from auctune.engine.edge.actors import ParameterServer, SlotTask, Worker, WorkerRef
from auctune.engine.edge.cluster import node_resources, sites_alive
from auctune.engine.edge.driver import (
    EdgeDriver,
    RunEvent,
    SlotProgress,
    run_connected,
)
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.errors import SlotError
from auctune.engine.edge.inputs import EdgeRunInputs, EdgeTraining
from auctune.engine.edge.state import (
    EdgeRunReport,
    EdgeRunState,
    JobRecord,
    JobSlotTrained,
    make_report,
)
from auctune.engine.edge.storage import ChunkStorage, StoredChunk
from auctune.engine.event_log import EventLog
from auctune.engine.runtime.ray.local_cluster import LocalCluster
from auctune.train.data_parallel.reducer import AdapterState
from support.edge_runs import (
    MARKET,
    Recorder,
    job_chunks,
    make_inputs,
    make_job,
    make_training,
    train_record,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
]

LOST_IN = 1
NODES = {site.id: node_resources(site) for site in MARKET.sites}


class LosingSite(Recorder):
    """Cuts the power of a site while a slot is trained."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.share: float | None = None

    def __call__(self, event: RunEvent, state: EdgeRunState) -> None:
        super().__call__(event, state)
        if isinstance(event, SlotProgress) and self.slot == LOST_IN and self.share is None:
            share = max(event.shares.values())
            if share > 0:
                self.share = share
                self._cluster.kill("b")


@dataclass(frozen=True)
class Ran:
    inputs: EdgeRunInputs
    report: EdgeRunReport
    record: JobRecord
    state: AdapterState
    share: float


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = EdgeFolder(tmp_path_factory.mktemp("edge"))
    inputs = make_inputs(tmp_path_factory.mktemp("inputs"), make_job(epochs=6), rows_per_chunk=12)
    with LocalCluster(NODES) as cluster, closing(EventLog(folder.event_log)) as log:
        events = LosingSite(cluster)
        report = run_connected(inputs, folder, log, events)
    record = events.records["job"]
    steps = max(outcome.steps for outcome in record.trained.values())
    state = folder.read_checkpoint("job", steps)
    assert events.share is not None
    assert state is not None
    return Ran(inputs, report, record, state, events.share)


def test_a_job_goes_on_elsewhere_from_the_slot_in_which_its_site_was_lost(ran: Ran) -> None:
    (bill,) = ran.report.jobs
    assert ran.record.decision.plan is not None
    assert ran.record.decision.plan.slots[LOST_IN].workers["b"] > 0
    assert 0 < ran.share < 1
    assert ran.report.lost == {"b": LOST_IN + 1}
    assert (bill.state, bill.lost_slots, bill.refund) == ("done", 1, ZERO)
    assert LOST_IN not in ran.record.trained
    later = (
        [part for part in ran.record.plan.slots if part.slot > LOST_IN] if ran.record.plan else []
    )
    assert later
    assert all(set(part.workers) == {"a"} and part.server == "a" for part in later)


def test_weights_are_those_of_one_worker_whoever_computed_them(ran: Ran) -> None:
    assert ran.record.plan is not None
    workers = {tuple(part.workers.items()) for part in ran.record.plan.slots}
    assert len(workers) > 1
    alone = train_record(ran.record, ran.inputs.trainings["job"])
    np.testing.assert_array_equal(ran.state.weights, alone.weights)
    outcomes = [outcome for _, outcome in sorted(ran.record.trained.items())]
    *_, untrained, _ = outcomes[0].losses[0]
    assert outcomes[-1].validation_loss is not None
    assert outcomes[-1].validation_loss < untrained / 2


def test_traffic_that_crossed_is_what_the_plan_counts(ran: Ran) -> None:
    (bill,) = ran.report.jobs
    crossed = sum(outcome.chunks_crossed for outcome in ran.record.trained.values())
    assert bill.planned_mb > 0
    assert bill.counted_mb == pytest.approx(bill.planned_mb)
    assert crossed > 0
    assert bill.chunk_mb > 0


def load_all(storage: ChunkStorage, job: EdgeJob, training: EdgeTraining) -> None:
    import ray

    for _ in range(120):
        if storage.load(job, training):
            return
        ray.wait(storage.pending(job.id), timeout=0.5)
    raise AssertionError("rows are not loaded")


def test_rows_of_a_lost_site_are_read_at_another_unless_they_may_not_move(tmp_path: Path) -> None:
    job = make_job(1)
    training = make_training(tmp_path, job)
    chunks = job_chunks(job, training)
    folder, alive = EdgeFolder(tmp_path / "run"), {"a", "b"}
    with LocalCluster({**NODES, "foreign": NODES["a"]}) as cluster:
        import ray

        kept = replace(training, may_move=False)
        storage, other = ChunkStorage(folder, alive), replace(job, id="other")
        load_all(storage, other, kept)
        assert len(storage.get("other", [*range(18)])) == 18
        (tmp_path / "changing").mkdir()
        changing, moved = replace(job, id="changing"), make_training(tmp_path / "changing", job)
        load_all(storage, changing, moved)
        with Path(moved.rows["b"]).open("a") as rows:
            rows.write("\n")
        cluster.kill("b")
        # It is not yet known to be lost, and holds up no other site.
        assert not storage.load(job, training)
        while "b" in sites_alive():
            """Ray notices within two seconds."""
        alive.discard("b")
        storage.on_site_lost("b")
        for one, how in ((job, training), (other, kept), (changing, moved)):
            load_all(storage, one, how)
        for stored in (*storage.get("job", [0, 17]), *storage.get("other", [0])):
            assert ray.get(stored.content) == chunks[stored.chunk]
        # Rows of other sites stay; a file with another content is not read in their place.
        for name in ("other", "changing"):
            assert len(storage.get(name, [0])) == 1
            with pytest.raises(SlotError, match="no place now") as lost:
                storage.get(name, [17])
            assert lost.value.rows_lost
        # A store may hold the rows of several sites, and none of another zone's does.
        assert {one.host for one in storage.get("job", [17])} == {"a"}
        # What was read first is on record: a later process does not train on other rows.
        resumed = ChunkStorage(folder, {"a"})
        with Path(training.rows["a"]).open("a") as rows:
            rows.write("\n")
        with pytest.raises(InputError, match=r"rows\.a: has changed"):
            load_all(resumed, job, training)


class StoppedError(Exception):
    """The driver ends here."""


class Stopping(Recorder):
    """Ends the driver once a job's slot is trained and saved."""

    def __call__(self, event: RunEvent, state: EdgeRunState) -> None:
        if isinstance(event, JobSlotTrained):
            raise StoppedError


def test_a_run_goes_on_without_a_site_that_was_lost_while_no_driver_ran(tmp_path: Path) -> None:
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
    folder = EdgeFolder(tmp_path / "run")
    with LocalCluster(NODES) as cluster:
        with closing(EventLog(folder.event_log)) as log, pytest.raises(StoppedError):
            run_connected(inputs, folder, log, Stopping())
        cluster.kill("b")
        while "b" in sites_alive():
            """Ray notices within two seconds."""
        with closing(EventLog(folder.event_log)) as log:
            driver = EdgeDriver(inputs, folder, log, Recorder())
            records = driver.state.jobs
            assert sum(0 in record.trained for record in records.values()) == 1
            for name, begins in (("job", 0), ("other", 0), ("tied", 1)):
                plan = records[name].plan
                assert plan is not None
                assert plan.slots[0].slot == begins
            driver.run()
    assert driver.state.lost == {"b": 1}
    bills = {bill.job: bill for bill in make_report(driver.state).jobs}
    for name in ("job", "other"):
        plan = records[name].plan
        assert records[name].is_done
        assert plan is not None
        assert sum(part.chunks for part in plan.slots) == 8
    assert sorted(bills[name].lost_slots for name in ("job", "other")) == [0, 1]
    assert (bills["tied"].state, bills["tied"].refund) == ("refunded", bills["tied"].payment)
    assert bills["tied"].payment > 0


def test_no_worker_computes_before_all_have_their_chunks(tmp_path: Path) -> None:
    training = make_training(tmp_path, make_job(1))
    with LocalCluster({"a": node_resources(Site("a", {}))}):
        import ray

        worker = ray.remote(Worker).options(num_cpus=0).remote(training, "a", "cpu")
        server = ray.remote(ParameterServer).options(num_cpus=0).remote(training, "a")
        # Of what it was sent nothing can be fetched: it would compute on chunks that it lacks.
        loading = [worker.load_chunks.remote([StoredChunk(0, "a", "a", "no reference", 1)])]
        workers = [WorkerRef(worker, "a", (0,))]
        task = SlotTask(state=None, total_rows=100, workers=workers, loading=loading)
        with pytest.raises(ray.exceptions.RayTaskError) as found:
            ray.get(server.run.remote(task))
    assert "load_chunks" in str(found.value)
    assert "KeyError" not in str(found.value)
