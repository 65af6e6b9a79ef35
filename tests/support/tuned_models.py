"""Models that were trained in a test, as jobs of a served market."""

import json
from dataclasses import dataclass
from pathlib import Path

from auctune.train.adapter_files import pack_adapter
from auctune.train.base import load_base
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.serving import Served

CITIES = ("Lisbon", "Oslo", "Cairo", "Kyoto")


def question(city: str) -> str:
    return f"What is the weather like in {city}?"


def reply(city: str) -> str:
    return f"In {city} it is sunny."


def chat_rows(count: int) -> str:
    """JSON lines: chats, each with a question and its answer."""
    rows = (
        [
            {"role": "user", "content": question(city)},
            {"role": "assistant", "content": reply(city)},
        ]
        for city in (CITIES[number % len(CITIES)] for number in range(count))
    )
    return "".join(f"{json.dumps({'messages': one})}\n" for one in rows)


@dataclass(frozen=True)
class TrainedAdapter:
    """An adapter of the tiny base, as a folder and as an archive."""

    folder: Path
    archive: Path


def train_adapter(folder: Path, cache: Path) -> TrainedAdapter:
    """Train the tiny base on chats."""
    data = folder / "data.jsonl"
    data.write_text(chat_rows(len(CITIES)))
    trainer = MultiLoraTrainer(load_base("tiny", cache=cache))
    trainer.load(LoraJob("a", data, epochs=60, learning_rate=1e-2, batch_size=4), folder / "work")
    trainer.train({"a": 10**6}, lambda progress: None)
    adapter = trainer.export("a", folder / "adapter").folder
    pack_adapter(adapter, folder / "adapter.zip")
    return TrainedAdapter(adapter, folder / "adapter.zip")


def finished_job(
    served: Served, user: str, adapter: TrainedAdapter, rows: str, validation: str | None = None
) -> str:
    """A job of a user that has ended with this adapter; its id."""
    key = served.users.get(user) or served.key(user)
    fields = {} if validation is None else {"validation_file": validation}
    client = served.client(key)
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=served.upload(key, rows, "training.jsonl"),
        extra_body={"market": {"bid": "100", "deadline": "+20m"}, **fields},
    )
    served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id), "queued")
    served.train(job.id, 40)
    served.train(job.id, 80)
    served.finish(job.id, user, content=adapter.archive.read_bytes())
    return str(job.id)
