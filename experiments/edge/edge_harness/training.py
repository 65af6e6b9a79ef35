"""Figure 6's job: the chunks that Eris plans for each slot, trained in three ways.

Workers and sites change from slot to slot, and weights do not depend on them: the tests show that
of adapters trained at sites. So one process trains here.
"""

from collections.abc import Iterator

import polars as pl

from auctune.edge import EdgeJob, EdgeMarket, EdgePlan, Eris, Logistic, Site
from auctune.engine.edge.storage import assign_chunks
from edge_harness.digits import DigitsTraining, digits, partition

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


def planned_chunks(job: EdgeJob, plan: EdgePlan) -> Iterator[list[int]]:
    """Yield the chunks of each slot of a plan."""
    for part in plan.slots:
        assigned = assign_chunks(job, part, plan.chunks_before(part.slot))
        yield [number for here in assigned.values() for number in here]


def by_plan(name: str, job: EdgeJob, plan: EdgePlan, *, by_label: bool = False) -> Iterator[Row]:
    """Train the chunks of the plan's slots; a row after each slot."""
    train, test = digits()
    training = DigitsTraining(partition(train, job.num_chunks, by_label=by_label))
    for number, chunks in enumerate(planned_chunks(job, plan), 1):
        training.train(chunks, job.epochs)
        workers = sum(plan.slots[number - 1].workers.values())
        yield _row(name, number, workers, *training.evaluate(test))


def all_mixed(name: str, job: EdgeJob, plan: EdgePlan) -> Iterator[Row]:
    """All chunks in each epoch; as many epochs a slot as the plan's slots have of the whole."""
    train, test = digits()
    training = DigitsTraining(partition(train, job.num_chunks))
    share, passed = 0.0, 0
    for number, part in enumerate(plan.slots, 1):
        share += part.chunks / job.num_chunks
        while passed < round(share * job.epochs):
            # Each pass has an order of its own.
            training.train(range(job.num_chunks), 1, seed=1 + passed)
            passed += 1
        yield _row(name, number, 1, *training.evaluate(test))


def _row(name: str, slot: int, workers: int, loss: float, accuracy: float) -> Row:
    return {"run": name, "slot": slot, "workers": workers, "loss": loss, "accuracy": accuracy}


def measure(epochs: int) -> pl.DataFrame:
    """Return loss and accuracy on samples set apart, after each slot of the three runs."""
    job = make_job(epochs)
    plan = Eris(MARKET).offer(job, 0).plan
    assert plan is not None
    rows = [
        *by_plan("planned", job, plan),
        *all_mixed("shuffled", job, plan),
        *by_plan("by label", job, plan, by_label=True),
    ]
    return pl.DataFrame(rows)
