"""Jobs trained at sites by the service, on real Ray nodes: the weights are those of one process."""

import io
import json
import os
import signal
import zipfile
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from safetensors.numpy import load
from sqlalchemy import create_engine, select

from auctune.run.edge.plain import plan_record, read_decision, read_job, read_plan
from auctune.run.open_sites.messages import TrainingTerms
from auctune.run.open_sites.site_data import read_job_data
from auctune.service.storage.tables import entries, events
from auctune.train.edge.alone import Alone
from auctune.train.edge.loading import load_model
from support.edge_zones import images_file
from support.service_process import ServiceProcess, poll, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here: the extra `ray` has it"),
]

SAMPLES, EPOCHS, BATCH, SEED = 96, 2, 16, 4


def write_edge_service(folder: Path, slot_seconds: float) -> Path:
    """Settings of a zone of two sites; a slot trains half of what a job here has, or less."""
    folder.mkdir(parents=True, exist_ok=True)
    speed = SAMPLES * EPOCHS / 4 / (slot_seconds * 0.5)
    file = folder / "auctune.toml"
    file.write_text(
        f"""
[[zones]]
kind = "edge"
name = "sites"
slot_seconds = {slot_seconds}
slots = 60
chunk_mb = {8 * 72 / 1e6}
server = {{ cpu = 0.5 }}
samples_per_second = {speed}
step_seconds = 0.0
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


class Shop:
    """A service with an edge zone, and a job's files in it."""

    def __init__(self, service: ServiceProcess, folder: Path) -> None:
        self.service, self.folder = service, folder
        self.files: dict[str, Path] = {}
        self.sites: dict[str, str] = {}
        for seed, site in enumerate(("north", "south")):
            self.files[site] = folder / f"{site}.npz"
            self.files[site].write_bytes(images_file(seed, SAMPLES))
            self.sites[site] = service.upload(self.files[site].read_bytes(), f"{site}.npz")

    def client(self) -> openai.OpenAI:
        host, port = self.service.address
        return openai.OpenAI(
            base_url=f"http://{host}:{port}/v1",
            api_key=self.service.key,
            max_retries=0,
            _strict_response_validation=True,
        )

    @property
    def work(self) -> dict[str, Any]:
        return {
            "model": "small",
            "training_file": self.sites["north"],
            "hyperparameters": {"n_epochs": EPOCHS, "batch_size": BATCH},
            "seed": SEED,
        }

    def submit(self) -> str:
        """A job, for a bid above what a quote shows; its deadline leaves room for slots anew."""
        terms = {"sites": self.sites, "deadline": "+6m"}
        status, quote = self.service.ask("POST", "/v1/quotes", {**self.work, "market": terms})
        assert (status, quote["kind"]) == (200, "edge"), quote
        price = quote["lines"][-1]["price"]
        bid = str(2 * Decimal(price))
        with self.client() as client:
            job = client.fine_tuning.jobs.create(
                **self.work, extra_body={"market": {**terms, "bid": bid}}
            )
        assert job.market["payment"] == price  # type: ignore[attr-defined]
        return str(job.id)

    def weights(self, job: str) -> dict[str, Any]:
        """What came out of a job, by the official client."""
        with self.client() as client:
            found = client.fine_tuning.jobs.retrieve(job)
            assert found.status == "succeeded", found
            content = client.files.content(found.result_files[0]).read()
        archive = zipfile.ZipFile(io.BytesIO(content))
        assert archive.namelist() == [f"{job}/model.safetensors", f"{job}/receipt.json"]
        receipt = json.loads(archive.read(f"{job}/receipt.json"))
        assert (receipt["job"], receipt["samples"]) == (job, 2 * SAMPLES)
        weights = dict(load(archive.read(f"{job}/model.safetensors")))
        archive.extractall(self.service.data / "fetched")
        loaded = load_model(self.service.data / "fetched" / job).state_dict()
        assert {name: value.tolist() for name, value in loaded.items()} == {
            name: value.tolist() for name, value in weights.items()
        }
        return weights

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

    def alone(self, job: str) -> dict[str, Any]:
        """The same chunks, slot by slot, in one process by one worker."""
        log = self.log(job)
        decided = next(body for kind, body in log if kind == "job.decided")
        asked = read_job(decided["job"])
        terms = TrainingTerms(
            model="small", batch_size=BATCH, micro_batch=BATCH, learning_rate=0.05, momentum=0.9,
            weight_decay=0.0, seed=SEED, files={s: str(p) for s, p in self.files.items()},
            validation=None, classes=10,
        )  # fmt: skip
        data = read_job_data(asked, terms)
        alone = Alone(data.maker, data.recipe, data.chunks)
        parts = {
            part["slot"]: part
            for kind, body in log
            for part in _found(kind, body)
        }  # fmt: skip
        trained = [body["slot"] for kind, body in log if kind == "job.trained"]
        assert len(trained) == len(set(trained))
        taken: Counter[str] = Counter()
        for slot in trained:
            (part,) = read_plan([parts[slot]]).slots
            dealt = data.by_destination(part, taken)
            alone.train([number for numbers in dealt.values() for number in numbers], EPOCHS)
            for move in part.moves:
                taken[move.origin] += move.chunks
        assert dict(taken) == dict(asked.chunks)
        data.maker.set_weights(alone.state.weights)
        return dict(data.maker.named_weights())


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


def test_a_job_with_data_at_two_sites_is_quoted_bought_and_trained_to_its_end(
    tmp_path: Path,
) -> None:
    config = write_edge_service(tmp_path / "settings", slot_seconds=6.0)
    with running(config, tmp_path / "data") as service:
        shop = Shop(service, tmp_path)
        job = shop.submit()
        service.wait_for_job(job, lambda one: one["status"] == "succeeded")
        found = shop.weights(job)
        assert service.stop() == 0
    expected = shop.alone(job)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.thorough
def test_a_killed_service_and_a_killed_site_change_neither_the_weights_nor_the_price(
    tmp_path: Path,
) -> None:
    config = write_edge_service(tmp_path / "settings", slot_seconds=10.0)
    with running(config, tmp_path / "data") as service:
        shop = Shop(service, tmp_path)
        job = shop.submit()
        paid = service.job(job)["market"]["payment"]
        service.wait_for_job(job, trained(1))
        service.kill()
        service.start()
        # What is on record of a slot stays there, and what was going on is made good.
        assert trained(1)(service.job(job))
        other = shop.submit()
        where = service.wait_for_job(other, lambda one: bool(one["market"]["edge"]["slots"]))
        slots = where["market"]["edge"]["slots"]
        begins, site = slots[0]["begins_at"], next(iter(slots[0]["workers"]))
        poll(lambda: service.ask("GET", "/v1/zones/sites")[1]["slot_ends_at"] > begins, "a slot")
        nodes = json.loads((service.data / "work/sites/state/sites.json").read_bytes())
        os.kill(nodes["processes"][site], signal.SIGKILL)
        for one in (job, other):
            done = service.wait_for_job(one, lambda found: found["status"] == "succeeded")
            assert done["status"] == "succeeded", done
        poll(
            lambda: (
                {s["state"] for s in service.ask("GET", "/v1/zones/sites/state")[1]["sites"]}
                == {"up"}
            ),
            "the site to be there again",
        )
        assert service.job(job)["market"]["payment"] == paid
        found = {one: shop.weights(one) for one in (job, other)}
        assert service.stop() == 0
    for one, weights in found.items():
        for name, array in shop.alone(one).items():
            np.testing.assert_array_equal(weights[name], array)
