"""A real run on a local Ray cluster, of which a site is lost within a slot.

One cluster and one run serve all tests: their processes are heavy.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from auctune.domain.money import ZERO
from auctune.edge import ErisParams, Site
from auctune.run.edge.actors import Member, ParameterServer, StoredChunk, Worker
from auctune.run.edge.checkpoints import Checkpoints
from auctune.run.edge.crews import sites_alive
from auctune.run.edge.driver import EdgeDriver, Parts
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.job_data import read_all
from auctune.run.edge.report import EdgeRunReport
from auctune.run.edge.resources import offered
from auctune.run.edge.run import run_connected
from auctune.run.edge.state import JobRecord
from auctune.run.edge.storage import Storage
from auctune.run.event_log import EventLog
from auctune.run.local_cluster import LocalCluster
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.train.edge.descent import TrainingState
from auctune.train.edge.gradients import GradientMaker
from auctune.train.edge.images import digits
from auctune.train.edge.recipe import Recipe
from support.edge_runs import MARKET, Hearing, make_inputs, train_alone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here: the extra `ray` has it"),
]

LOST_IN = 1
NODES = {site.id: offered(site) for site in MARKET.sites}


class Losing(Hearing):
    """Cuts the power of a site once a slot is under way."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.share: float | None = None

    def went_on(self, shares: Mapping[str, float]) -> None:
        if self.slot == LOST_IN and self.share is None and max(shares.values()) > 0:
            self.share = max(shares.values())
            self._cluster.kill("b")


@dataclass(frozen=True)
class Ran:
    report: EdgeRunReport
    record: JobRecord
    state: TrainingState
    share: float
    place: EdgeFolder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    place = EdgeFolder(tmp_path_factory.mktemp("edge"))
    inputs = make_inputs(epochs=12)
    data = read_all(inputs.instance.jobs, inputs.recipes)
    with (
        LocalCluster(NODES) as cluster,
        closing(EventLog(place.event_log)) as journal,
    ):
        listener = Losing(cluster)
        report = run_connected(inputs, data, place, journal, listener)
    record = listener.records["job"]
    steps = max(outcome.steps for outcome in record.trained.values())
    first = np.zeros_like(train_alone(record).state.weights)
    state = Checkpoints(place).read("job", steps, first)
    assert listener.share is not None
    return Ran(report, record, state, listener.share, place)


def test_a_job_goes_on_elsewhere_from_the_slot_in_which_its_site_was_lost(ran: Ran) -> None:
    (bill,) = ran.report.jobs
    assert ran.record.decision.plan is not None
    assert ran.record.decision.plan.slots[LOST_IN].workers["b"] > 0
    assert 0 < ran.share < 1
    assert ran.report.lost == {"b": LOST_IN + 1}
    assert (bill.state, bill.torn, bill.refund) == ("done", 1, ZERO)
    assert LOST_IN not in ran.record.trained
    later = (
        [part for part in ran.record.plan.slots if part.slot > LOST_IN] if ran.record.plan else []
    )
    assert later
    assert all(set(part.workers) == {"a"} and part.server == "a" for part in later)


def test_weights_are_those_of_one_worker_whoever_computed_them(ran: Ran) -> None:
    assert ran.record.plan is not None
    crews = {tuple(part.workers.items()) for part in ran.record.plan.slots}
    assert len(crews) > 1
    alone = train_alone(ran.record)
    np.testing.assert_allclose(ran.state.weights, alone.state.weights, rtol=0, atol=1e-6)
    (bill,) = ran.report.jobs
    assert bill.accuracy is not None
    assert bill.accuracy > 0.9


def test_traffic_that_crossed_is_what_the_plan_counts(ran: Ran) -> None:
    (bill,) = ran.report.jobs
    crossed = sum(outcome.chunks_crossed for outcome in ran.record.trained.values())
    assert bill.planned_mb > 0
    assert bill.counted_mb == pytest.approx(bill.planned_mb)
    assert crossed > 0
    assert bill.chunk_mb > 0


def test_what_it_came_to_is_handed_out_by_the_models_names(ran: Ran) -> None:
    with np.load(ran.place.weights("job")) as weights:
        flat = np.concatenate([weights[name].ravel() for name in weights.files])
    np.testing.assert_array_equal(flat, ran.state.weights)


def test_chunks_of_a_site_that_is_gone_and_not_yet_known_to_be_are_lent() -> None:
    inputs = make_inputs(epochs=1)
    (job,) = inputs.instance.jobs
    (data,) = read_all([job], inputs.recipes).values()
    with LocalCluster(NODES) as cluster:
        import ray

        cluster.kill("b")
        storage = Storage()
        storage.place("job", ["a", "b"], data)
        for one in storage.of("job", [0, 17]):
            assert len(ray.get(one.content)) == len(data.chunks[one.chunk])


class StoppedError(Exception):
    """The driver ends here."""


class Stopping(Hearing):
    """Ends the driver once a job's slot is trained and saved."""

    def trained(self, record: JobRecord, slot: int) -> None:
        raise StoppedError


def test_what_was_trained_of_a_slot_stands_if_a_site_is_lost_before_the_slot_goes_on(
    tmp_path: Path,
) -> None:
    inputs = make_inputs(epochs=1)
    (job,) = inputs.instance.jobs
    job = replace(job, chunks={"a": 4, "b": 4}, server={}, worker={"cpu": 0.6}, parameter_mb=0)
    jobs = (job, replace(job, id="other"))
    inputs = replace(
        inputs,
        instance=EdgeInstance(MARKET, jobs),
        recipes=dict.fromkeys(("job", "other"), Recipe()),
        params=ErisParams(worth=0),
    )
    data, place = read_all(jobs, inputs.recipes), EdgeFolder(tmp_path)
    with LocalCluster(NODES) as cluster:
        with closing(EventLog(place.event_log)) as journal, pytest.raises(StoppedError):
            run_connected(inputs, data, place, journal, Stopping())
        with closing(EventLog(place.event_log)) as journal:
            driver = EdgeDriver(Parts(inputs, data, place, journal, Hearing()))
            before = driver.state.jobs.values()
            assert sum(0 in record.trained for record in before) == 1
            assert all(record.plan and record.plan.slots[0].workers["b"] for record in before)
            cluster.kill("b")
            while "b" in sites_alive():
                """Ray notices within two seconds."""
            driver.run()
            records = driver.state.jobs
    assert driver.state.lost == {"b": 1}
    for record in records.values():
        assert record.is_done
        assert record.plan is not None
        assert sum(part.chunks for part in record.plan.slots) == 8
    assert sorted(record.num_torn for record in records.values()) == [0, 1]


def test_no_worker_computes_before_all_have_their_chunks() -> None:
    recipe, data = Recipe(), digits(0)
    with LocalCluster({"a": offered(Site("a", {}))}):
        import ray

        worker = ray.remote(Worker).options(num_cpus=0).remote(recipe, data.shape, "a", "cpu")
        server = ray.remote(ParameterServer).options(num_cpus=0).remote(recipe, "a")
        state = TrainingState.first(GradientMaker(recipe, data.shape).weights)
        # Of what it was sent nothing can be fetched: it would compute on chunks that it lacks.
        fetched = [worker.hold.remote([StoredChunk(0, "a", "no reference")])]
        result = server.run.remote(state, [Member(worker, "a", (0,))], {0: 64}, 1, fetched)
        with pytest.raises(ray.exceptions.RayTaskError) as found:
            ray.get(result)
    assert "hold" in str(found.value)
    assert "KeyError" not in str(found.value)
