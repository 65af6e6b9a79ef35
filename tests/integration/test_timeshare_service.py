"""A timeshare zone of a real service: three jobs, two of whose targets cannot be reached.

One of these is cancelled just before the pool, the service or both are killed: no unit is lost or
charged twice. A fourth job starts from the adapter of the one that reached its target.
"""

import io
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import create_engine, select

from auctune.service.storage.tables import entries, events
from support.processes import kill
from support.replayed import replayed
from support.service_process import (
    Answer,
    ServiceProcess,
    rows_of,
    running,
    write_pool_service,
)
from support.thorough import THOROUGH
from support.tiny_architecture import tiny_architecture
from support.zone_state import records

pytestmark = pytest.mark.slow

# To its deadline the pool is busy, and so is a processor.
VICTIMS, SECONDS = (("pool", "service", "both"), 50) if THOROUGH else (("both",), 14)

TARGET = 0.8
LORA = {"rank": 4, "learning_rate": 0.01, "target_modules": ["c_attn"]}


def submit(
    service: ServiceProcess, file: str, target: float, deadline: str, model: str = "tiny"
) -> str:
    market = {"target_loss": target, "deadline": deadline, "max_cost": "1", "lora": LORA}
    body = {"model": model, "training_file": file, "seed": 7, "market": market}
    body["hyperparameters"] = {"batch_size": 4}
    status, answer = service.ask("POST", "/v1/fine_tuning/jobs", body)
    assert status == 200, answer
    assert answer["market"]["decision"] == "admitted"
    job: str = answer["id"]
    return job


def steps_beyond(steps: int) -> Callable[[Answer], bool]:
    return lambda job: steps_of(job) > steps


def steps_of(job: Answer) -> int:
    progress = job["market"]["progress"]
    return 0 if progress is None else int(progress["steps"])


def last_epochs(job: Answer) -> list[int]:
    """The newest of the last three epochs comes first; 40 rows are 10 batches."""
    return list(range(steps_of(job) // 10, 0, -1))[:3]


def has_adapter(service: ServiceProcess, job: Answer) -> bool:
    archive = zipfile.ZipFile(io.BytesIO(service.download(job["result_files"][-1])))
    return any(name.endswith("adapter_model.safetensors") for name in archive.namelist())


@pytest.mark.smoke
def test_targets_are_met_or_not_and_each_unit_is_charged_once_whatever_is_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = write_pool_service(tmp_path, tiny_architecture())
    with running(config, tmp_path / "data") as service:
        file = service.upload(rows_of(40))
        reached = submit(service, file, TARGET, "+10m")
        service.wait_for_job(reached, steps_beyond(0))
        dropped = submit(service, file, 1e-6, "+10m")
        service.wait_for_job(dropped, steps_beyond(0))
        hopeless = submit(service, file, 1e-6, f"+{SECONDS}s")
        steps = 0
        for victim in VICTIMS:
            steps = steps_of(service.wait_for_job(hopeless, steps_beyond(steps)))
            if victim == VICTIMS[0]:
                status, answer = service.ask("POST", f"/v1/fine_tuning/jobs/{dropped}/cancel")
                assert (status, answer["status"]) == (200, "cancelled")
            if victim != "service":
                kill(service.first_worker())
            if victim != "pool":
                service.kill()
                service.start()
            assert steps_of(service.job(hopeless)) >= steps
        done = service.wait_for_job(reached, lambda job: False)
        assert done["status"] == "succeeded", done["error"]
        assert done["market"]["target"]["curve"][-1][1] <= TARGET
        assert has_adapter(service, done)
        _, epochs = service.ask("GET", f"/v1/fine_tuning/jobs/{reached}/checkpoints")
        assert [one["epoch"] for one in epochs["data"]] == last_epochs(done)
        continued = submit(service, file, TARGET, "+10m", done["fine_tuned_model"])
        further = service.wait_for_job(continued, lambda job: False)
        assert further["status"] == "succeeded", further["error"]
        assert further["market"]["start_from"] == done["fine_tuned_model"]
        # It goes on from about the target.
        first, first_of_other = (one["market"]["target"]["curve"][0][1] for one in (further, done))
        assert first < first_of_other
        failed = service.wait_for_job(hopeless, lambda job: False)
        assert failed["error"]["code"] == "target_not_reached"
        assert has_adapter(service, failed)
        assert Decimal(failed["market"]["metered"]["cost"]) > 0
        assert failed["market"]["metered"]["held"] == "0.0000"
        # What it used is charged until the pool drops it; then nothing is set aside.
        cancelled = service.job(dropped)["market"]["metered"]
        assert cancelled["held"] == "0.0000"
        assert Decimal(cancelled["cost"]) > 0
        service.first_worker()
        _, state = service.ask("GET", "/v1/zones/pool/state")
        assert {one["job"] for one in records(state, "Shares of the pool")} == {
            hopeless,
            reached,
            dropped,
            continued,
        }
        assert service.stop() == 0
    check_charges(tmp_path / "data", {hopeless, reached, dropped, continued})
    again = replayed(tmp_path / "data", config, "pool", monkeypatch, capsys)
    assert again["num_decisions"] == 4
    assert again["num_charges"] > 2


def check_charges(data: Path, jobs: set[str]) -> None:
    """Each unit of a job is recorded and charged once, and all of its batches are."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:

        def bodies_of(type_: str) -> list[tuple[Any, str]]:
            query = select(events).where(events.c.type == type_).order_by(events.c.seq)
            return [(orjson.loads(row.body), row.job) for row in connection.execute(query)]

        bodies, trained = bodies_of("job.metered"), bodies_of("job.trained")
        units = [body["unit"] for body, _ in bodies_of("pool.unit_trained")]
        refunded = {job for body, job in bodies_of("job.failed") if body["refund"]}
        cancelled = {job for _, job in bodies_of("job.cancelled")}
        amounts = list(connection.execute(select(entries.c.account, entries.c.amount)))
    engine.dispose()
    assert units == sorted(set(units))
    charged_units = [(body["unit"], job) for body, job in bodies if body["batches"]]
    assert len(charged_units) == len(set(charged_units))
    assert {job for _, job in charged_units} == jobs
    for job in jobs:
        batches = sum(body["batches"] for body, name in bodies if name == job)
        steps = [body["result"]["steps"] for body, name in trained if name == job]
        assert steps == sorted(set(steps))
        # A cancelled job's last units are charged, but are no progress.
        assert steps[-1] <= batches if job in cancelled else steps[-1] == batches
    sums: dict[str, int] = {}
    for account, amount in amounts:
        sums[account] = sums.get(account, 0) + amount
    assert sum(sums.values()) == 0
    assert sums["held"] == sums["hold:operator"] == 0
    # Of a batch that was slower than sold, as others are at work, what was sold is charged, and
    # nothing of a job that missed its target for this.
    seconds = [(body.get("charged_seconds", body["seconds"]), job) for body, job in bodies]
    assert all(one <= body["seconds"] for (one, _), (body, _) in zip(seconds, bodies, strict=True))
    charged = sum(round(0.01 * one * 10_000) for one, job in seconds if job not in refunded)
    assert abs(sums["user:operator"] - charged) <= len(bodies)
