"""Figure 6: what changing workers do to training, and what the order of chunks does.

Four runs of one job of digits, by the chunks that are sent to training in each slot:

planned    on Ray, with workers and sites as Eris plans them, slot by slot
fixed      the same chunks in the same slots, by one worker in one process
shuffled   all chunks in each pass, a pass an epoch: what a plan cannot do, as a chunk is trained
           for all its epochs in one slot
by label   as planned, but sites hold different classes

python experiments/edge/fig06_training.py [--out FOLDER] [--epochs N]
"""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.render import to_png, to_svg
from auctune.edge import EdgeJob, EdgeMarket, Logistic, Site
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.inputs import EdgeRunInputs
from auctune.run.edge.job_data import JobData, read_all
from auctune.run.edge.listener import SilentListener
from auctune.run.edge.local_cluster import LocalCluster
from auctune.run.edge.run import run_connected
from auctune.run.edge.state import JobRecord
from auctune.run.journal import Journal
from auctune.sim.edge.instance import EdgeInstance
from auctune.train.edge.alone import Alone
from auctune.train.edge.images import digits
from auctune.train.edge.recipe import Recipe

NAME = "fig06_training"
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
    with tempfile.TemporaryDirectory() as folder, LocalCluster(MARKET.sites):
        place = EdgeFolder(Path(folder))
        with closing(Journal(place.journal)) as journal:
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
    data = JobData(record.job, recipe, digits(recipe.seed))
    alone, rows = Alone(data.maker, recipe, data.chunks), []
    for number, part in enumerate(record.plan.slots, 1):
        dealt = data.by_destination(part, record.taken(part.slot))
        alone.train([chunk for here in dealt.values() for chunk in here], record.job.epochs)
        rows.append(_row(name, number, 1, *alone.evaluate(data.data.test)))
    return rows


def all_mixed(name: str, record: JobRecord, recipe: Recipe) -> list[Row]:
    """All chunks in each epoch; as many epochs a slot as the plan's slots have of the whole."""
    assert record.plan is not None
    job, parts = record.job, record.plan.slots
    data = JobData(job, recipe, digits(recipe.seed))
    alone, rows = Alone(data.maker, recipe, data.chunks), []
    share, passed = 0.0, 0
    for number, part in enumerate(parts, 1):
        share += part.chunks / job.num_chunks
        while passed < round(share * job.epochs):
            # Each pass has an order of its own.
            mixed = replace(recipe, seed=recipe.seed + 1 + passed)
            alone.train_with(mixed, range(job.num_chunks), 1)
            passed += 1
        rows.append(_row(name, number, 1, *alone.evaluate(data.data.test)))
    return rows


def _row(name: str, slot: int, workers: int, loss: float, accuracy: float) -> Row:
    return {"run": name, "slot": slot, "workers": workers, "loss": loss, "accuracy": accuracy}


def measure(epochs: int, recipe: Recipe) -> pl.DataFrame:
    """Loss and accuracy on samples set apart, after each slot of the five runs."""
    record, rows = on_ray("planned", make_job(epochs), recipe)
    rows += by_one_worker("fixed", record, recipe)
    rows += all_mixed("shuffled", record, recipe)
    rows += by_one_worker("by label", record, replace(recipe, split="by_label"))
    return pl.DataFrame(rows)


def draw(frame: pl.DataFrame, out: Path) -> None:
    """Data as parquet, the chart as SVG and PNG."""
    out.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(out / f"{NAME}.parquet")
    panels = [
        CurvePanel("", quantity, _curves(frame, column))
        for column, quantity in (("accuracy", "accuracy"), ("loss", "test loss"))
    ]
    chart = curves_chart(panels, x_title="slots of training")
    (out / f"{NAME}.svg").write_text(to_svg(chart))
    (out / f"{NAME}.png").write_bytes(to_png(chart))


def _curves(frame: pl.DataFrame, column: str) -> list[Curve]:
    return [
        Curve(str(name), part["slot"].to_list(), part[column].to_list())
        for (name,), part in frame.group_by(["run"], maintain_order=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("out/experiments/edge"), help="folder (%(default)s)")
    add("--epochs", type=int, default=40, help="of each chunk, as in the paper (%(default)s)")
    parsed = parser.parse_args(arguments)
    frame = measure(parsed.epochs, Recipe())
    draw(frame, parsed.out)
    table = Table("run", "slots", "workers by slot", "loss", "accuracy", title="Figure 6")
    for (name,), part in frame.group_by(["run"], maintain_order=True):
        workers = " ".join(str(count) for count in part["workers"])
        loss, accuracy = part["loss"][-1], part["accuracy"][-1]
        table.add_row(str(name), f"{len(part)}", workers, f"{loss:.6f}", f"{accuracy:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
