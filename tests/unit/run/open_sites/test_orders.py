"""Orders to the sites by way of JSON, what is kept of slots, and a job's data from its files."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.edge import ByDuration, EdgeJob, Move, SlotPlan
from auctune.run.data.image_rows import read_images
from auctune.run.edge.checkpoints import Checkpoints
from auctune.run.open_sites.floor import states_of
from auctune.run.open_sites.folder import OpenSitesFolder, SiteOutcome
from auctune.run.open_sites.messages import SiteOrder, SitesSettings, TrainingTerms
from auctune.run.open_sites.site_data import read_job_data
from auctune.run.open_sites.worker import SitesWorker
from auctune.run.runtime.channel import ParentChannel
from auctune.train.edge.descent import TrainingState
from support.edge_zones import images_file

JOB = EdgeJob(
    id="ftjob-1",
    arrival=7,
    epochs=3,
    chunks={"a": 4, "b": 3},
    worker={"cpu": 1.0},
    server={},
    chunks_per_worker_slot=2.5,
    parameter_mb=0.1,
    utility=ByDuration((5.0, 5.0)),
)


def terms(folder: Path, **more: object) -> TrainingTerms:
    files = {}
    for seed, site in enumerate("ab"):
        files[site] = str(folder / f"{site}.npz")
        (folder / f"{site}.npz").write_bytes(images_file(seed, samples=15 if site == "a" else 12))
    return TrainingTerms(
        model="small",
        batch_size=8,
        micro_batch=8,
        learning_rate=0.05,
        momentum=0.9,
        weight_decay=0.0,
        seed=5,
        files=files,
        validation=None,
        classes=10,
    )


def test_an_order_is_the_same_by_way_of_json(tmp_path: Path) -> None:
    part = SlotPlan(9, {"a": 2}, "b", (Move("a", "a", 2), Move("b", "a", 1)))
    order = SiteOrder(
        job=JOB, terms=terms(tmp_path), part=part, taken={"a": 1}, steps=4, is_last=True
    )
    assert SiteOrder.from_record(json.loads(json.dumps(order.to_record()))) == order


def test_each_sample_of_a_site_is_in_one_chunk_of_it(tmp_path: Path) -> None:
    asked = terms(tmp_path)
    data = read_job_data(JOB, asked)
    for site, count in JOB.chunks.items():
        images, labels = read_images(Path(asked.files[site]), site)
        mine = [data.chunks[number] for number in data.at_site(site)]
        assert len(mine) == count
        assert max(map(len, mine)) - min(map(len, mine)) <= 1
        found = np.concatenate([chunk.images for chunk in mine])
        assert Counter(one.tobytes() for one in found) == Counter(one.tobytes() for one in images)
        assert sorted(np.concatenate([chunk.labels for chunk in mine])) == sorted(labels)
    assert data.test is None


def test_a_file_that_is_gone_is_named_by_its_site(tmp_path: Path) -> None:
    asked = terms(tmp_path)
    Path(asked.files["b"]).unlink()
    with pytest.raises(InputError, match=r"market\.sites\.b") as refused:
        read_job_data(JOB, asked)
    assert str(tmp_path) not in str(refused.value)


def test_a_job_whose_checkpoint_is_gone_or_damaged_is_broken_and_no_other_with_it(
    tmp_path: Path,
) -> None:
    data, place = read_job_data(JOB, terms(tmp_path)), OpenSitesFolder.at(tmp_path)
    checkpoints, said = Checkpoints(place.run), list[tuple[str, str]]()
    part = SlotPlan(9, {"a": 1}, "a", (Move("a", "a", 1),))
    # As after a restart of a service whose database came back without its work.
    steps = {"new": 0, "going": 3, "gone": 3, "damaged": 3}
    orders = [
        SiteOrder(job=replace(JOB, id=job), terms=terms(tmp_path), part=part, steps=count)
        for job, count in steps.items()
    ]
    state = TrainingState.first(data.first_weights)
    for job in ("going", "damaged"):
        checkpoints.write(job, replace(state, steps=3), 0)
    place.run.checkpoint("damaged", 3).write_bytes(b"PK\x03\x04")

    def say(kind: str, **values: object) -> None:
        assert str(tmp_path) not in str(values["why"])
        said.append((kind, str(values["job"])))

    found = states_of(orders, dict.fromkeys(steps, data), checkpoints, say)
    assert {job: state.steps for job, state in found.items()} == {"new": 0, "going": 3}
    assert said == [("broken", "gone"), ("broken", "damaged")]


def test_what_is_kept_of_a_slot_counts_for_the_steps_that_it_began_after(tmp_path: Path) -> None:
    place = OpenSitesFolder.at(tmp_path)
    outcome = SiteOutcome(
        before=3, steps=5, samples=16, first_loss=0.2, loss=0.1, test_loss=None, accuracy=None,
        seconds=1.0, chunks_crossed=0, chunk_bytes=0, parameter_bytes=0,
    )  # fmt: skip
    place.model("ftjob-1").mkdir(parents=True)
    place.keep("ftjob-1", 9, outcome)
    assert place.kept("ftjob-1", 9, 3) == outcome
    assert place.kept("ftjob-1", 9, 5) is None
    assert place.kept("ftjob-1", 8, 3) is None


def test_the_process_of_sites_on_a_cluster_needs_no_gpu_of_its_own(tmp_path: Path) -> None:
    settings = SitesSettings(str(tmp_path), {"a": {"gpu": 1.0}}, ray="127.0.0.1:1", device="cuda:9")
    with pytest.raises(InputError, match=r"ray\.address: '127.0.0.1:1' does not answer"):
        SitesWorker(settings, ParentChannel.__new__(ParentChannel)).run()
    here = replace(settings, ray="")
    with pytest.raises(InputError, match="'cuda:9' cannot be used"):
        SitesWorker(here, ParentChannel.__new__(ParentChannel)).run()
