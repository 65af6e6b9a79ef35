"""Adapters trained at sites by the service, on this machine: those of one process."""

import io
import json
import os
import signal
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from peft import PeftModel
from pydantic import TypeAdapter
from sqlalchemy import create_engine, select
from typer.testing import CliRunner

from auctune.cli.app import app
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.records import plan_record, read_decision, read_plan
from auctune.engine.edge.site_store import cut_chunks
from auctune.engine.edge.storage import assign_chunks
from auctune.service.jobs.training import Training
from auctune.service.storage.tables import entries, events
from auctune.sim.edge.instance_file import parse_edge_job
from auctune.train.adapter_files import WEIGHTS
from auctune.train.base import load_base
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from support.chunk_training import train_alone
from support.edge_runs import write_base
from support.edge_zones import TOKENS
from support.page_visitor import PageVisitor
from support.service_process import ServiceProcess, running
from support.waits import poll
from support.zone_state import records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]

ROWS, EPOCHS, BATCH, MICRO, SEED = 24, 2, 8, 4, 4
HELD_OUT = 2
# Ten times what the slots of a job take: a busy machine misses some.
DEADLINE = "+15m"


def constants(slot_seconds: float) -> dict[str, float]:
    """Of a service whose slots train half of what a job here has, or less, in small chunks."""
    row_seconds = slot_seconds * 0.5 / (ROWS * EPOCHS / 2)
    return {
        "auctune.service.zones.core.kind.MEASURE_SECONDS": 1.0,
        "auctune.service.zones.edge.supply.STEP_SECONDS": row_seconds * BATCH,
        "auctune.service.config.edge.CHUNK_MB": 4 * 4 * (TOKENS + 1) / 1e6,
    }


def write_edge_service(folder: Path, slot_seconds: float) -> Path:
    """Settings of a zone of two sites; it is served with `constants`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "auctune.toml"
    file.write_text(
        f"""
[[zones]]
kind = "edge"
name = "sites"
base = "{write_base(folder / "base")}"
slot_seconds = {slot_seconds}
slots = 120
rows_move = true
server = {{ cpu = 0.5 }}
headroom = 0.5
pricing = {{ reserve_value = 10.0 }}
[[zones.sites]]
id = "north"
capacity = {{ cpu = 1.5 }}
[[zones.sites]]
id = "south"
capacity = {{ cpu = 1.5 }}
"""
    )
    return file


def site_rows(seed: int) -> bytes:
    """Rows of 18 words that begin differently and go on alike: others can be learned from them."""
    tail = ["word5", "word9", "word7", "word21"] * 4 + ["word5"]
    texts = [" ".join([f"word{(29 * seed + row) % 60}", *tail]) for row in range(ROWS)]
    return "".join(f"{json.dumps({'text': text})}\n" for text in texts).encode()


class Shop:
    """A service with an edge zone, and a job's files in it."""

    def __init__(self, service: ServiceProcess, folder: Path) -> None:
        self.service, self.base = service, str(folder / "settings" / "base")
        self.files: dict[str, Path] = {}
        self.sites: dict[str, str] = {}
        for seed, site in enumerate(("north", "south")):
            self.files[site] = folder / f"{site}.jsonl"
            self.files[site].write_bytes(site_rows(seed))
            self.sites[site] = service.upload(self.files[site].read_bytes(), f"{site}.jsonl")

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.service.url}/v1",
            api_key=self.service.key,
            max_retries=0,
            _strict_response_validation=True,
        )

    @property
    def work(self) -> dict[str, Any]:
        return {
            "model": self.base,
            "training_file": self.sites["north"],
            "hyperparameters": {
                "n_epochs": EPOCHS, "batch_size": BATCH, "learning_rate_multiplier": 20,
            },
            "seed": SEED,
        }  # fmt: skip

    def quoted(self) -> str:
        """What a quote shows as the lowest price, once the sites are connected."""
        lines: list[dict[str, Any]] = []

        def is_offered() -> bool:
            terms = {"sites": self.sites, "deadline": DEADLINE}
            status, quote = self.service.ask("POST", "/v1/quotes", {**self.work, "market": terms})
            assert (status, quote["kind"]) == (200, "edge"), quote
            lines[:] = quote["lines"]
            return bool(lines)

        poll(is_offered, "the sites")
        return str(lines[-1]["price"])

    def submit_by_client(self, model: str | None = None) -> str:
        """A job, for a bid above what a quote shows; its deadline leaves room for slots anew.

        It starts from `model`, or from the base.
        """
        price = self.quoted()
        terms = {"sites": self.sites, "deadline": DEADLINE, "bid": str(2 * Decimal(price))}
        with self.client() as client:
            work = self.work if model is None else {**self.work, "model": model}
            job = client.fine_tuning.jobs.create(**work, extra_body={"market": terms})
        assert job.market["payment"] == price
        return str(job.id)

    def submit_by_page(self) -> str:
        """The same job, by the form of the page."""
        answer = PageVisitor(self.service, self.service.key).post(
            "/page/quotes",
            sites="".join(f"{site} = {file}\n" for site, file in self.sites.items()),
            bid=str(9 * Decimal(self.quoted())),
            deadline=DEADLINE,
            n_epochs=f"{EPOCHS}",
            batch_size=f"{BATCH}",
            learning_rate_multiplier="20",
            seed=f"{SEED}",
            place_bid="yes",
        )
        assert answer.url.path.startswith("/page/jobs/ftjob-"), answer.text
        return answer.url.path.rpartition("/")[2]

    def submit_by_cli(self) -> str:
        """The same job, by the command line, which uploads the files again."""
        work = {"epochs": EPOCHS, "batch_size": BATCH, "learning_rate": 0.02, "seed": SEED}
        terms = ["--bid", str(9 * Decimal(self.quoted())), "--deadline", DEADLINE, "--json"]
        words = [word for site, file in self.files.items() for word in ("--site", f"{site}={file}")]
        words += [word for key, value in work.items() for word in ("--set", f"{key}={value}")]
        key = {"AUCTUNE_URL": self.service.url, "AUCTUNE_API_KEY": self.service.key}
        found = CliRunner().invoke(app, ["submit", *words, *terms], env=key)
        assert found.exit_code == 0, found.output
        return str(json.loads(found.stdout)["id"])

    def check_adapter(self, files: dict[str, bytes], folder: Path) -> None:
        """Plain PEFT loads an adapter, and it lowers the loss on held-out rows of the sites."""
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        base = load_base(self.base, cache=folder)
        texts = [json.loads(line)["text"] for line in site_rows(HELD_OUT).splitlines()]
        rows = torch.tensor([base.tokenizer(text)["input_ids"] for text in texts])
        with torch.no_grad():
            before = base.fresh_model()(input_ids=rows, labels=rows).loss
            adapted = PeftModel.from_pretrained(base.fresh_model(), str(folder))
            after = adapted(input_ids=rows, labels=rows).loss
        assert after < 0.9 * before

    def adapter(self, job: str) -> dict[str, bytes]:
        """The files of a job's adapter, by the official client."""
        with self.client() as client:
            found = client.fine_tuning.jobs.retrieve(job)
            assert found.status == "succeeded", found
            content = client.files.content(found.result_files[-1]).read()
        archive = zipfile.ZipFile(io.BytesIO(content))
        return {name.removeprefix(f"{job}/"): archive.read(name) for name in archive.namelist()}

    def check_kept(self, job: str, adapter: dict[str, bytes]) -> None:
        """Of each slot, up to the last three, there is an adapter; the last one's is the result."""
        trained = [body for kind, body in self.log(job) if kind == "job.trained"]
        with self.client() as client:
            kept = client.fine_tuning.jobs.checkpoints.list(job).data
            assert len(kept) == min(3, len(trained))
            assert kept[0].step_number == trained[-1]["result"]["steps"]
            content = client.files.content(kept[0].result_file).read()
        archive = zipfile.ZipFile(io.BytesIO(content))
        (name,) = (name for name in archive.namelist() if name.endswith(WEIGHTS))
        assert archive.read(name) == adapter[WEIGHTS]

    def log(self, job: str) -> list[tuple[str, dict[str, Any]]]:
        """Events of a job, by kind."""
        engine = create_engine(f"sqlite:///{self.service.data / 'auctune.db'}")
        with engine.connect() as connection:
            chosen = select(events.c.type, events.c.body).where(events.c.job == job)
            rows = connection.execute(chosen.order_by(events.c.seq)).all()
            sums: Counter[str] = Counter()
            for row in connection.execute(select(entries.c.account, entries.c.amount)):
                sums[row.account] += row.amount
        engine.dispose()
        assert sum(sums.values()) == sums["held"] == 0
        return [(row.type, json.loads(row.body)) for row in rows]

    def alone(self, job: str, start: Path | None = None) -> dict[str, bytes]:
        """The adapter of the same chunks, slot by slot, in one process by one worker.

        It starts from the adapter in a folder, or is a new one.
        """
        log = self.log(job)
        decided = next(body for kind, body in log if kind == "job.decided")
        edge_job = parse_edge_job(decided["job"])
        training = TypeAdapter(Training).validate_python(decided["training"])
        config = LoraJob(
            id=job, data=Path(), start_digest=training.start_digest, **training.hyperparameters()
        )
        chunks = [
            chunk
            for site, count in edge_job.chunks.items()
            for chunk in cut_chunks(self.files[site], site, count, SEED)
        ]
        parts = {part["slot"]: part for kind, body in log for part in _found(kind, body)}
        trained = [body["slot"] for kind, body in log if kind == "job.trained"]
        assert len(trained) == len(set(trained))
        taken: Counter[str] = Counter()
        slots: list[list[int]] = []
        for slot in trained:
            (part,) = read_plan([parts[slot]]).slots
            assigned = assign_chunks(edge_job, part, taken)
            slots.append([number for numbers in assigned.values() for number in numbers])
            for move in part.moves:
                taken[move.origin] += move.chunks
        assert dict(taken) == dict(edge_job.chunks)
        worker = GradientWorker(load_base(self.base, cache=Path(self.base)), config)
        if start is not None:
            worker.start_from(start)
        total = 2 * ROWS * EPOCHS
        state = train_alone(config, MICRO, worker, chunks, slots, total)
        worker.set_weights(state.tensors["adapter"].numpy())
        return worker.export()


def _found(kind: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Slots of a plan that an event brings."""
    if kind == "job.decided":
        plan = read_decision(body["answer"]).plan
        return [] if plan is None else plan_record(plan)
    return list(body["found"]) if kind == "job.replanned" else []


def trained(count: int) -> Callable[[dict[str, Any]], bool]:
    def has(job: dict[str, Any]) -> bool:
        slots = (job["market"]["edge"] or {"slots": []})["slots"]
        return bool(sum(part["trained"] for part in slots) >= count)

    return has


@pytest.mark.smoke
def test_a_job_with_data_at_two_sites_is_quoted_bought_and_trained_to_its_end(
    tmp_path: Path,
) -> None:
    config = write_edge_service(tmp_path / "settings", slot_seconds=8.0)
    with running(config, tmp_path / "data", constants(8.0)) as service:
        shop = Shop(service, tmp_path)
        job = shop.submit_by_client()
        service.wait_for_job(job, lambda one: one["status"] == "succeeded")
        found = shop.adapter(job)
        shop.check_kept(job, found)
        folder = EdgeFolder(service.data / "work" / "sites")
        # Nothing that the sites reported has a word of their rows in it.
        for path in (*folder.root.rglob("*.json"), *folder.root.rglob("*.safetensors")):
            with suppress(FileNotFoundError):  # The service removes them once their job has ended.
                assert b"word" not in path.read_bytes()
        assert service.stop() == 0
    assert found == shop.alone(job)
    shop.check_adapter(found, tmp_path / "adapter")


def test_a_killed_service_and_a_killed_site_change_neither_the_weights_nor_the_price(
    tmp_path: Path,
) -> None:
    config = write_edge_service(tmp_path / "settings", slot_seconds=10.0)
    with running(config, tmp_path / "data", constants(10.0)) as service:
        shop = Shop(service, tmp_path)
        job = shop.submit_by_cli()
        paid = service.job(job)["market"]["payment"]
        service.wait_for_job(job, trained(1))
        service.kill()
        service.start()
        # What is on record of a slot stays there, and what was going on is made good.
        assert trained(1)(service.job(job))
        other = shop.submit_by_page()
        where = service.wait_for_job(other, lambda one: bool(one["market"]["edge"]["slots"]))
        slots = where["market"]["edge"]["slots"]
        begins, site = slots[0]["begins_at"], next(iter(slots[0]["workers"]))
        poll(lambda: service.ask("GET", "/v1/zones/sites")[1]["slot_ends_at"] > begins, "a slot")
        record = json.loads((service.data / "work/sites/state/sites.json").read_bytes())
        os.kill(record["processes"][site], signal.SIGKILL)
        for one in (job, other):
            done = service.wait_for_job(one, lambda found: found["status"] == "succeeded")
            assert done["status"] == "succeeded", done

        def states() -> set[str]:
            state = service.ask("GET", "/v1/zones/sites/state")[1]
            return {site["state"] for site in records(state, "Sites")}

        poll(lambda: states() == {"up"}, "the site to be there again")
        assert service.job(job)["market"]["payment"] == paid
        further = shop.submit_by_client(model=service.job(job)["fine_tuned_model"])
        done = service.wait_for_job(further, lambda found: found["status"] == "succeeded")
        assert done["market"]["start_from"] == service.job(job)["fine_tuned_model"], done
        found = {one: shop.adapter(one) for one in (job, other, further)}
        assert service.stop() == 0
    for one, files in found.items():
        assert files == shop.alone(one, tmp_path / job if one == further else None)
        shop.check_adapter(files, tmp_path / one)
