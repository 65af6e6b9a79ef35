"""Small real runs of the edge: what the tests of one start it with, and what it should come to."""

from collections.abc import Mapping
from pathlib import Path

from auctune.edge import EdgeJob, EdgeMarket, Logistic, Site
from auctune.run.edge.inputs import EdgeRunInputs
from auctune.run.edge.job_data import deal
from auctune.run.edge.listener import SilentListener
from auctune.run.edge.state import JobRecord
from auctune.sim.edge.instance_file import EdgeInstance, write_edge_instance
from auctune.train.edge.alone import Alone
from auctune.train.edge.images import digits
from auctune.train.edge.recipe import Recipe

MARKET = EdgeMarket(
    slots=9,
    sites=(Site("a", {"cpu": 3}), Site("b", {"cpu": 2})),
    traffic_mb_per_slot=40,
    chunk_mb=2,
)


def make_job(epochs: int) -> EdgeJob:
    """A job of 18 chunks, of which a worker trains two in a slot."""
    return EdgeJob(
        id="job",
        arrival=0,
        epochs=epochs,
        chunks={"a": 9, "b": 9},
        worker={"cpu": 1},
        server={"cpu": 1},
        chunks_per_worker_slot=2.0 * epochs,
        parameter_mb=5,
        utility=Logistic(100, 3),
    )


def make_inputs(epochs: int) -> EdgeRunInputs:
    """A run of that job."""
    job = make_job(epochs)
    return EdgeRunInputs(EdgeInstance(MARKET, (job,)), {job.id: Recipe()})


def write_instance(inputs: EdgeRunInputs, path: Path) -> Path:
    write_edge_instance(inputs.instance, path)
    return path


def train_alone(record: JobRecord) -> Alone:
    """The chunks of a job's slots, in their order, in one process by one worker."""
    assert record.plan is not None
    recipe = Recipe()
    data = deal(record.job, recipe, digits(recipe.seed))
    alone = Alone(data.maker, recipe, data.chunks)
    for part in record.plan.slots:
        dealt = data.by_destination(part, record.taken(part.slot))
        numbers = [number for here in dealt.values() for number in here]
        alone.train(numbers, record.job.epochs)
    return alone


class Hearing(SilentListener):
    """Keeps the records that it hears of."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
        self.slot = -1

    def offered(self, record: JobRecord) -> None:
        self.records[record.job.id] = record

    def slot_begun(self, slot: int, records: list[JobRecord]) -> None:
        self.slot = slot
        self.records |= {record.job.id: record for record in records}

    def went_on(self, shares: Mapping[str, float]) -> None:
        """Nothing: to be overridden."""
