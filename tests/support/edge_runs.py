"""Small real runs of the edge: inputs, and the weights that they should come to."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from auctune.domain.dataset import DataSet
from auctune.edge import EdgeDecision, EdgeJob, EdgeMarket, Eris, Logistic, Move, Site, SlotPlan
from auctune.engine.edge.inputs import EdgeRunInputs, EdgeTraining
from auctune.engine.edge.records import SlotRequest, read_decision
from auctune.engine.edge.site_store import cut_chunks
from auctune.engine.edge.storage import assign_chunks
from auctune.service.storage import EventLog, open_readonly
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.snapshots import read_event
from auctune.service.zones.edge.state import EdgeJobState, InstanceState, empty_model
from auctune.sim.edge.instance_file import EdgeInstance, write_edge_instance
from auctune.standalone.edge import ZONE, EdgeRunFolder
from auctune.standalone.edge_console import EdgeConsole
from auctune.train.base import load_base
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from support.chunk_training import train_alone
from support.small_bases import WORDS, build_model, build_tokenizer

MARKET = EdgeMarket(
    slots=9,
    sites=(Site("a", {"cpu": 3}), Site("b", {"cpu": 2})),
    traffic_mb_per_slot=40,
    chunk_mb=2,
)
SECRET = "word60"
"""A word of all rows."""


def write_base(folder: Path) -> Path:
    """A base of 2 layers, 32 wide, as a folder."""
    import torch

    torch.manual_seed(0)
    build_model("llama").save_pretrained(folder)
    build_tokenizer().save_pretrained(str(folder))
    return folder


def write_site_rows(path: Path, count: int, seed: int) -> Path:
    """Rows of different lengths, of which others can be learned."""
    rows = []
    for number in range(count):
        words = " ".join(WORDS[(seed + number * step) % 59] for step in range(1, 3 + number % 5))
        rows.append({"prompt": f"{words} ", "completion": f"word5 word9 {SECRET}"})
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


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


def make_training(folder: Path, job: EdgeJob, rows_per_chunk: int = 4) -> EdgeTraining:
    """Rows at each site, a base, and settings of an adapter."""
    rows = {
        site: str(write_site_rows(folder / f"{site}.jsonl", count * rows_per_chunk + 1, seed))
        for seed, (site, count) in enumerate(job.chunks.items())
    }
    return EdgeTraining(
        base=str(write_base(folder / "base")),
        cache=str(folder / "cache"),
        config=LoraJob(
            id=job.id, data=Path(), epochs=job.epochs, rank=2, learning_rate=0.02, batch_size=8,
            max_length=24, seed=5,
        ),
        rows=rows,
        may_move=True,
        validation=str(write_site_rows(folder / "validation.jsonl", 4, 17)),
    )  # fmt: skip


def make_request() -> SlotRequest:
    """A slot of a job, whose rows nobody reads."""
    training = EdgeTraining(
        base="tiny", cache="/cache", rows={"a": "/a", "b": "/b"}, num_rows=40, may_move=False,
        config=LoraJob(id="job", data=Path(), epochs=3, target_modules=("q_proj",), seed=4),
    )  # fmt: skip
    part = SlotPlan(9, {"a": 2}, "b", (Move("a", "a", 2), Move("b", "a", 1)))
    job = make_job(3)
    return SlotRequest(job=job, training=training, part=part, taken={"a": 1}, steps=4, is_last=True)


def make_inputs(folder: Path, *jobs: EdgeJob, rows_per_chunk: int = 4) -> EdgeRunInputs:
    """A run of jobs that train alike."""
    trainings = {job.id: make_training(folder, job, rows_per_chunk) for job in jobs}
    return EdgeRunInputs(EdgeInstance(MARKET, jobs), trainings)


def write_inputs(inputs: EdgeRunInputs, folder: Path) -> tuple[Path, Path]:
    """An instance and a TRAINING.toml, as files; of a job that starts anew."""
    instance, training = folder / "instance.json", folder / "training.toml"
    write_edge_instance(inputs.instance, instance)
    (one,) = inputs.trainings.values()
    rows = ", ".join(f'{site} = "{file}"' for site, file in one.rows.items())
    config = one.config
    training.write_text(
        f"""
[default]
base = "{one.base}"
rows = {{ {rows} }}
validation = "{one.validation}"
rows_move = {str(one.may_move).lower()}
rank = {config.rank}
learning_rate = {config.learning_rate}
batch_size = {config.batch_size}
max_length = {config.max_length}
seed = {config.seed}
"""
    )
    return instance, training


def job_chunks(job: EdgeJob, training: EdgeTraining) -> list[DataSet]:
    """A job's chunks, by number."""
    return [
        chunk
        for site, count in job.chunks.items()
        for chunk in cut_chunks(Path(training.rows[site]), site, count, training.config.seed)
    ]


def make_worker(training: EdgeTraining) -> GradientWorker:
    """A worker of this process, with the adapter that the job starts from."""
    base = load_base(training.base, cache=Path(training.cache))
    worker = GradientWorker(base, training.config)
    if training.config.start_from is not None:
        worker.start_from(training.config.start_from)
    return worker


def train_plan(ended: EdgeJobState, training: EdgeTraining) -> Checkpoint:
    """The chunks of a job's slots, in their order, in one process by one worker."""
    job, chunks = ended.job, job_chunks(ended.job, training)
    slots = [
        [
            number
            for here in assign_chunks(job, part, ended.plan.chunks_before(part.slot)).values()
            for number in here
        ]
        for part in ended.plan.slots
    ]
    total = job.epochs * sum(map(len, chunks))
    worker = make_worker(training)
    return train_alone(training.config, training.micro_batch, worker, chunks, slots, total)


class Watcher(EdgeConsole):
    """Shows nothing, and knows the running slot."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.slot = -1

    def slot_begun(self, slot: int, slots: int, requests: Sequence[SlotRequest]) -> None:
        self.slot = slot
        super().slot_begun(slot, slots, requests)


class StoppedError(Exception):
    """The run ends here."""


class Stopping(Watcher):
    """Ends the run once a job's slot is trained and saved."""

    def on_event(self, event: ZoneEvent) -> None:
        if event.type == EventType.TRAINED:
            raise StoppedError


@dataclass(frozen=True)
class Logged:
    """What the log of a run says.

    Attributes:
        state: of its zone.
        mechanism: what it has sold.
        events: all of them.
    """

    state: InstanceState
    mechanism: Eris
    events: list[ZoneEvent]

    def outcomes(self, job: str) -> list[dict[str, Any]]:
        """Outcomes of a job's slots, in their order."""
        return [
            {**event.body["outcome"], "losses": event.body["result"]["losses"]}
            for event in self.events
            if event.job == job and event.type == EventType.TRAINED
        ]

    def answer(self, job: str) -> EdgeDecision:
        """Decision on a job."""
        decided = (one for one in self.events if (one.job, one.type) == (job, EventType.DECIDED))
        return read_decision(next(decided).body["answer"])


def read_log(folder: EdgeRunFolder) -> Logged:
    """Fold the log of a run again."""
    with open_readonly(folder.state) as reader:
        events = [*map(read_event, EventLog(reader).read_zone(ZONE))]
    model = empty_model(events[0].body)
    for event in events:
        model.apply(event)
    assert isinstance(model.state, InstanceState)
    return Logged(model.state, model.mechanism, events)
