"""Requests to the sites by way of JSON, and what is kept of slots."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.domain.errors import CheckpointError
from auctune.edge import Move, SlotPlan
from auctune.run.edge.edge_folder import EdgeFolder
from auctune.run.edge.messages import SitesSettings, SlotRequest, read_requests, requests_record
from auctune.run.edge.training import EdgeTraining
from auctune.run.edge.worker import SitesWorker
from auctune.run.runtime.channel import ParentChannel
from auctune.train.data_parallel.reducer import AdapterState
from auctune.train.job import LoraJob
from support.edge_runs import make_job
from support.edge_zones import outcome_of

JOB = make_job(3)
TRAINING = EdgeTraining(
    base="tiny", cache="/cache", rows={"a": "/a", "b": "/b"}, num_rows=40, may_move=False,
    config=LoraJob(id="job", data=Path(), epochs=3, target_modules=("q_proj",), seed=4),
)  # fmt: skip
PART = SlotPlan(9, {"a": 2}, "b", (Move("a", "a", 2), Move("b", "a", 1)))
REQUEST = SlotRequest(job=JOB, training=TRAINING, part=PART, taken={"a": 1}, steps=4, is_last=True)


def test_a_request_is_the_same_by_way_of_json() -> None:
    requests = [REQUEST, replace(REQUEST, until=1234.5)]
    assert read_requests(json.loads(json.dumps(requests_record(requests)))) == requests


def test_a_state_is_read_as_it_was_written_and_older_ones_go(tmp_path: Path) -> None:
    folder = EdgeFolder(tmp_path)
    values = np.arange(5, dtype=np.float32)
    states = [AdapterState(values * steps, values, values, "digest", steps, 8) for steps in (3, 7)]
    for state, keep_from in zip(states, (0, 3), strict=True):
        folder.write_checkpoint("a/b", state, keep_from)
    found = folder.read_checkpoint("a/b", 7)
    assert found is not None
    np.testing.assert_array_equal(found.weights, states[1].weights)
    assert (found.base_digest, found.steps, found.rows) == ("digest", 7, 8)
    assert folder.read_checkpoint("a/b", 0) is None
    folder.write_checkpoint("a/b", replace(states[1], steps=9), 7)
    with pytest.raises(CheckpointError, match="cannot be read"):
        folder.read_checkpoint("a/b", 3)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04"])
def test_a_damaged_state_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = EdgeFolder(tmp_path)
    folder.job("job").mkdir(parents=True)
    (folder.job("job") / "3.npz").write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        folder.read_checkpoint("job", 3)


def test_an_outcome_counts_for_the_steps_that_its_slot_began_after(tmp_path: Path) -> None:
    folder, outcome = EdgeFolder(tmp_path), outcome_of(REQUEST)
    folder.job("job").mkdir(parents=True)
    folder.write_outcome("job", 9, outcome)
    assert outcome.chunks == (1, 2, 9)
    assert folder.read_outcome("job", 9, 4) == outcome
    assert folder.read_outcome("job", 9, 5) is None
    assert folder.read_outcome("job", 8, 4) is None


def test_the_process_of_sites_on_a_cluster_needs_no_gpu_of_its_own(tmp_path: Path) -> None:
    settings = SitesSettings(str(tmp_path), {"a": {"gpu": 1.0}}, ray="127.0.0.1:1", device="cuda:9")
    with pytest.raises(InputError, match=r"ray\.address: '127.0.0.1:1' does not answer"):
        SitesWorker(settings, ParentChannel.__new__(ParentChannel)).run()
    here = replace(settings, ray="")
    with pytest.raises(InputError, match="'cuda:9'"):
        SitesWorker(here, ParentChannel.__new__(ParentChannel)).run()
