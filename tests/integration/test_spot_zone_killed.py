"""A job rented by the service, with kill -9 of everything: same adapter, each slot charged once.

Another one starts from its adapter.
"""

import io
import json
import os
import signal
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, delete, select, text

from auctune.numerics.rng import stream
from auctune.service.storage.tables import entries, events
from auctune.train.base import Base
from auctune.train.data_parallel.gradient_worker import GradientWorker
from auctune.train.job import LoraJob
from support.elastic import new_trainer, train_with
from support.journals import write_journal
from support.replayed import replayed
from support.service_process import ServiceProcess, rows_of, running
from support.spot_zones import SPOT_CONSTANTS, write_spot_service
from support.thorough import THOROUGH
from support.zone_state import records

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

ROWS, EPOCHS = 40, 16
SETTINGS: dict[str, Any] = {"rank": 4, "learning_rate": 0.01, "target_modules": ["c_attn"]}
REQUEST: dict[str, Any] = {
    "model": "tiny",
    "hyperparameters": {"n_epochs": EPOCHS, "batch_size": 4},
    "seed": 7,
    "market": {"max_cost": "200", "deadline": "+60s", "zone": "rented", "lora": SETTINGS},
}


def undisturbed(base: Base, folder: Path) -> bytes:
    """The adapter of the same job, trained in this process with nothing in the way."""
    folder.mkdir()
    data = folder / "data.jsonl"
    data.write_bytes(rows_of(ROWS))
    settings = {**SETTINGS, "target_modules": tuple(SETTINGS["target_modules"])}
    job = LoraJob(
        id="job", data=data, epochs=EPOCHS, batch_size=4, seed=7, max_length=512, **settings
    )
    trainer = new_trainer(base, job, folder / "work", 4)
    worker = GradientWorker(base, job)
    train_with(trainer, [worker], stream(0))
    worker.set_weights(trainer.weights)
    return worker.export()["adapter_model.safetensors"]


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(one) for one in (task / "children").read_text().split()]
    except OSError:
        pass
    return found


def coordinators(service: ServiceProcess) -> list[int]:
    return [
        pid
        for pid in children(service.pid)
        if b"spot.job_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def rows(job: dict[str, Any]) -> int:
    progress = job["market"]["progress"]
    return 0 if progress is None else int(progress["rows"])


@pytest.mark.smoke
def test_a_killed_rented_job_ends_as_an_undisturbed_one_and_its_bill_is_the_ledgers(
    tiny_base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = write_spot_service(
        tmp_path / "site",
        tiny_base.architecture,
        slot_seconds=1.0,
        tokens_per_second=600,
        n_max=1,
        policy="robust:risk=0.1",
    )
    data = tmp_path / "data"
    with running(config, data, SPOT_CONSTANTS) as service:
        file = service.upload(rows_of(ROWS))
        status, quote = service.ask("POST", "/v1/quotes", {**REQUEST, "training_file": file})
        assert (status, quote["kind"], quote["lines"]) == (200, "spot", []), quote
        estimate = quote["estimate"]
        # The mean of thirty futures may be above their 90th percentile.
        assert float(estimate["expected_cost"]) > 0
        assert float(estimate["p90_cost"]) > 0
        status, job = service.ask(
            "POST", "/v1/fine_tuning/jobs", {**REQUEST, "training_file": file}
        )
        assert (status, job["market"]["decision"]) == (200, "admitted"), job
        name = job["id"]
        # A job's coordinator, then the service: all that belongs to it ends with it.
        seen = 0
        if THOROUGH:
            service.wait_for_job(name, lambda one: rows(one) > 0)
            end(coordinators(service)[0])
            seen = rows(service.job(name))
        service.wait_for_job(name, lambda one: rows(one) > seen)
        service.kill()
        to_version_11(data, name)
        service.start()
        done = service.wait_for_job(name, lambda one: one["status"] == "succeeded")
        assert done["status"] == "succeeded", done
        archive = zipfile.ZipFile(io.BytesIO(service.download(done["result_files"][-1])))
        adapter = next(one for one in archive.namelist() if one.endswith(".safetensors"))
        assert archive.read(adapter) == undisturbed(tiny_base, tmp_path / "alone")
        assert done["market"]["metered"]["held"] == "0.0000"
        _, epochs = service.ask("GET", f"/v1/fine_tuning/jobs/{name}/checkpoints")
        assert [one["epoch"] for one in epochs["data"]] == [EPOCHS, EPOCHS - 1, EPOCHS - 2]
        further = start_from(service, file, epochs["data"][1]["fine_tuned_model_checkpoint"])
        rented = service.ask("GET", "/v1/zones/rented/state")[1]
        slots = records(rented, "Spot market and holdings")
        assert any(one["spot held"] + one["on demand held"] for one in slots)
        assert service.stop() == 0
    charged = check_log(data, name, further)
    assert Decimal(done["market"]["metered"]["cost"]) == charged
    assert done["market"]["payment"] == str(charged)
    again = replayed(data, config, "rented", monkeypatch, capsys)
    assert again["num_decisions"] == 2
    assert again["num_charges"] > 1


def to_version_11(data: Path, job: str) -> None:
    """Move the events of a job's run into its folder, where such a release had them."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    of_run = (events.c.job == job) & (events.c.type == "job.run_event")
    with engine.begin() as connection:
        rows = connection.execute(select(events.c.body).where(of_run).order_by(events.c.seq))
        found = [json.loads(row.body)["event"] for row in rows.all()]
        connection.execute(text("DROP TRIGGER events_refuse_delete"))
        connection.execute(delete(events).where(of_run))
    engine.dispose()
    assert any(event["type"] == "slot" for event in found)
    write_journal(data / "work" / "rented" / job / "run" / "state" / "journal.jsonl", found)


def start_from(service: ServiceProcess, file: str, model: str) -> str:
    """A job of one epoch from an adapter, which begins with lower losses than from the base."""
    body = {**REQUEST, "model": model, "training_file": file}
    body["hyperparameters"] = {"n_epochs": 1, "batch_size": 4}
    status, job = service.ask("POST", "/v1/fine_tuning/jobs", body)
    assert (status, job["market"]["start_from"]) == (200, model), job
    name: str = job["id"]
    done = service.wait_for_job(name, lambda one: one["status"] == "succeeded")
    assert done["status"] == "succeeded", done
    losses = [
        float(line.split(",")[1])
        for line in service.download(done["result_files"][0]).decode().splitlines()[1:]
    ]
    assert len(losses) == ROWS // 4
    assert losses[0] < 1.0
    return name


def check_log(data: Path, job: str, further: str) -> Decimal:
    """That each slot is on record once and the ledger balances; what the first job was charged."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        starts = [
            json.loads(row.body)["seconds"]
            for row in connection.execute(
                select(events.c.body).where(
                    events.c.job == job, events.c.type == "job.process_ready"
                )
            )
        ]
        sums: dict[str, int] = {}
        for row in connection.execute(select(entries.c.account, entries.c.amount)):
            sums[row.account] = sums.get(row.account, 0) + row.amount
        charges = [charged_to(connection, one) for one in (job, further)]
    engine.dispose()
    # Its process was started at least twice.
    assert len(starts) > 1
    assert all(seconds > 0.0 for seconds in starts)
    assert sum(sums.values()) == 0
    assert sums["held"] == sums["hold:operator"] == 0
    charged, cost = (sum(parts) for parts in zip(*charges, strict=True))
    # On a machine that was never as fast as it was sold, all of it came back.
    assert Decimal(sums.get("user:operator", 0)).scaleb(-4) == charged
    assert Decimal(sums["provider:rented"]).scaleb(-4) == -cost
    return charges[0][0]


def charged_to(connection: Connection, job: str) -> tuple[Decimal, Decimal]:
    """What a job was charged and what it cost the service, each slot once."""
    found = [
        json.loads(row.body)
        for row in connection.execute(
            select(events.c.body).where(events.c.job == job, events.c.type == "job.metered")
        )
    ]
    # Of slots in which this machine was slower than its profile.
    trained = select(events.c.body).where(events.c.job == job, events.c.type == "job.trained")
    refunds = [
        Decimal(json.loads(row.body).get("refund", "0")) for row in connection.execute(trained)
    ]
    numbers = [one["slot"] for one in found]
    assert numbers == list(range(len(numbers)))
    in_time = [one for one in found if one["price"] is not None]
    assert all(Decimal(one["amount"]) >= Decimal(one["cost"]) for one in in_time)
    charged = sum((Decimal(one["amount"]) for one in found), Decimal(0)) - sum(refunds)
    return charged, sum((Decimal(one["cost"]) for one in found), Decimal(0))
