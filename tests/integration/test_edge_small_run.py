"""The whole path of a real run, as small as it gets: two Ray nodes, one job, one slot."""

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.edge import EdgeJob, EdgeMarket, Logistic, Site
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.inputs import keep_inputs, read_inputs
from auctune.run.edge.job_data import read_all
from auctune.run.edge.run import run_edge
from auctune.sim.edge.instance_file import EdgeInstance, write_edge_instance
from support.edge_runs import Hearing, train_alone

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not here: the extra `ray` has it"
)

MARKET = EdgeMarket(
    slots=3,
    # The worker fits site a alone, the server site b.
    sites=(Site("a", {"gpu": 1, "cpu": 0}), Site("b", {"gpu": 0, "cpu": 1})),
    traffic_mb_per_slot=40,
    chunk_mb=2,
)
JOB = EdgeJob(
    id="job",
    arrival=0,
    epochs=2,
    chunks={"a": 2, "b": 2},
    worker={"gpu": 1},
    server={"cpu": 1},
    chunks_per_worker_slot=4,
    parameter_mb=5,
    utility=Logistic(100, 3),
)


def test_a_bid_in_a_file_becomes_the_weights_of_one_worker_and_a_bill(tmp_path: Path) -> None:
    instance = tmp_path / "instance.json"
    write_edge_instance(EdgeInstance(MARKET, (JOB,)), instance)
    inputs, place, listener = read_inputs(instance, None), EdgeFolder(tmp_path / "out"), Hearing()
    data = read_all(inputs.instance.jobs, inputs.recipes)
    prepare = partial(keep_inputs, instance, inputs, place)
    report = run_edge(inputs, data, place, listener, prepare=prepare)

    record = listener.records["job"]
    assert record.plan is not None
    assert [(dict(part.workers), part.server) for part in record.plan.slots] == [
        ({"a": 1}, "b")
    ] * 2
    alone = train_alone(record)
    with np.load(place.weights("job")) as weights:
        flat = np.concatenate([weights[name].ravel() for name in weights.files])
    np.testing.assert_allclose(flat, alone.state.weights, rtol=0, atol=1e-6)
    (bill,) = report.jobs
    assert (bill.state, bill.finish, bill.slots) == ("done", record.decision.finish, 2)
    # Two chunks cross once, and the one worker stands away from its server in both slots.
    assert bill.counted_mb == bill.planned_mb == 2 * MARKET.chunk_mb + 2 * JOB.parameter_mb
    assert json.loads(place.report.read_bytes())["welfare"] == report.welfare == JOB.value(1)
    with pytest.raises(InputError, match="is not empty"):
        run_edge(inputs, data, place, listener, prepare=prepare)
