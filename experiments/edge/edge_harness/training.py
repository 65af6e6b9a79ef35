"""Figure 6's job, trained as Eris plans it on Ray, and in other ways by one worker."""

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl

from auctune.edge import EdgeJob, EdgeMarket, Logistic, Site
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.inputs import EdgeRunInputs
from auctune.run.edge.job_data import deal, read_all
from auctune.run.edge.listener import SilentListener
from auctune.run.edge.resources import offered
from auctune.run.edge.run import run_connected
from auctune.run.edge.state import JobRecord
from auctune.run.event_log import EventLog
from auctune.run.local_cluster import LocalCluster
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.train.edge.alone import Alone
from auctune.train.edge.images import digits
from auctune.train.edge.recipe import Recipe

MARKET = EdgeMarket(
    slots=16,
    sites=(Site("a", {"cpu": 3}), Site("b", {"cpu": 2})),
    traffic_mb_per_slot=40,
    chunk_mb=2,
)

Row = dict[str, str | int | float]


def make_job(epochs: int) -> EdgeJob:
    """27 chunks, as CIFAR-10 has in the paper's Table II; two a worker in a slot."""
    return EdgeJob(
        id="job",
        arrival=0,
        epochs=epochs,
        chunks={"a": 14, "b": 13},
        worker={"cpu": 1},
        server={"cpu": 1},
        chunks_per_worker_slot=2.0 * epochs,
        parameter_mb=1,
        utility=Logistic(1000, 8),
    )


class Keeping(SilentListener):
    """Keeps the job's record."""

    def __init__(self) -> None:
        self.record: JobRecord | None = None

    def offered(self, record: JobRecord) -> None:
        """See `EdgeListener`."""
        self.record = record


def on_ray(name: str, job: EdgeJob, recipe: Recipe) -> tuple[JobRecord, list[Row]]:
    """Train by Eris's plan on a cluster of this machine."""
    inputs = EdgeRunInputs(EdgeInstance(MARKET, (job,)), {job.id: recipe})
    data = read_all([job], inputs.recipes)
    keeping = Keeping()
    nodes = {site.id: offered(site) for site in MARKET.sites}
    with tempfile.TemporaryDirectory() as folder, LocalCluster(nodes):
        place = EdgeFolder(Path(folder))
        with closing(EventLog(place.event_log)) as journal:
            run_connected(inputs, data, place, journal, keeping)
    record = keeping.record
    assert record is not None
    assert record.plan is not None
    rows = []
    for number, part in enumerate(record.plan.slots, 1):
        came = record.trained[part.slot]
        workers = sum(part.workers.values())
        rows.append(_row(name, number, workers, came.test_loss, came.accuracy))
    return record, rows


def by_one_worker(name: str, record: JobRecord, recipe: Recipe) -> list[Row]:
    """The same chunks in the same slots, in this process."""
    assert record.plan is not None
    data = deal(record.job, recipe, digits(recipe.seed))
    assert data.test is not None
    alone, rows = Alone(data.maker, recipe, data.chunks), []
    for number, part in enumerate(record.plan.slots, 1):
        dealt = data.by_destination(part, record.taken(part.slot))
        alone.train([chunk for here in dealt.values() for chunk in here], record.job.epochs)
        rows.append(_row(name, number, 1, *alone.evaluate(data.test)))
    return rows


def all_mixed(name: str, record: JobRecord, recipe: Recipe) -> list[Row]:
    """All chunks in each epoch; as many epochs a slot as the plan's slots have of the whole."""
    assert record.plan is not None
    job, parts = record.job, record.plan.slots
    data = deal(job, recipe, digits(recipe.seed))
    assert data.test is not None
    alone, rows = Alone(data.maker, recipe, data.chunks), []
    share, passed = 0.0, 0
    for number, part in enumerate(parts, 1):
        share += part.chunks / job.num_chunks
        while passed < round(share * job.epochs):
            # Each pass has an order of its own.
            mixed = replace(recipe, seed=recipe.seed + 1 + passed)
            alone.train_with(mixed, range(job.num_chunks), 1)
            passed += 1
        rows.append(_row(name, number, 1, *alone.evaluate(data.test)))
    return rows


def _row(name: str, slot: int, workers: int, loss: float, accuracy: float) -> Row:
    return {"run": name, "slot": slot, "workers": workers, "loss": loss, "accuracy": accuracy}


def measure(epochs: int) -> pl.DataFrame:
    """Loss and accuracy on samples set apart, after each slot of the four runs."""
    recipe = Recipe()
    record, rows = on_ray("planned", make_job(epochs), recipe)
    rows += by_one_worker("fixed", record, recipe)
    rows += all_mixed("shuffled", record, recipe)
    rows += by_one_worker("by label", record, replace(recipe, split="by_label"))
    return pl.DataFrame(rows)
