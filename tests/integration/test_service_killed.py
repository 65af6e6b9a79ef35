"""kill -9 of a node's process, of the service, of both: a job comes out as if nothing had been."""

import io
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from auctune.service.store.tables import entries, events, jobs
from auctune.train.base import Base
from support.executor_kinds import KINDS
from support.processes import kill
from support.service_process import Answer, ServiceProcess, rows_of, running, write_service

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

REQUEST = {
    "model": "tiny",
    "hyperparameters": {"n_epochs": 3, "batch_size": 4},
    "seed": 7,
    "market": {"bid": "50", "deadline": "+280s", "lora": {"rank": 4, "learning_rate": 0.01}},
}


def adapter(service: ServiceProcess, job: str) -> bytes:
    found = service.wait_for_job(job, lambda one: one["status"] == "succeeded")
    assert found["status"] == "succeeded", found
    archive = zipfile.ZipFile(io.BytesIO(service.download(found["result_files"][0])))
    name = next(name for name in archive.namelist() if name.endswith(".safetensors"))
    return archive.read(name)


def submit(service: ServiceProcess, file: str) -> str:
    status, answer = service.ask("POST", "/v1/fine_tuning/jobs", {**REQUEST, "training_file": file})
    assert status == 200, answer
    assert answer["status"] == "queued", answer
    job: str = answer["id"]
    return job


@pytest.mark.parametrize("executor", KINDS)
def test_a_killed_job_ends_as_an_undisturbed_one_and_is_charged_once(
    tiny_base: Base, tmp_path: Path, executor: str
) -> None:
    # So little is sold of a slot that the job takes several; a busy machine needs more of them.
    config = write_service(
        tmp_path,
        tiny_base.digest,
        slot_seconds=2.0,
        tokens_per_second=1200,
        slots=150,
        executor=executor,
    )
    with running(config, tmp_path / "data") as service:
        file = service.upload(rows_of(40))
        undisturbed = adapter(service, submit(service, file))
        job = submit(service, file)
        rows = 0
        for victim in ("worker", "service", "both"):
            seen = service.wait_for_job(job, _beyond(rows))
            rows = _rows(seen)
            if victim != "service":
                kill(service.workers()[0])
            if victim != "worker":
                service.kill()
                service.start()
                assert _rows(service.job(job)) >= rows
        assert adapter(service, job) == undisturbed
        assert service.stop() == 0
    _check_charged_once(tmp_path / "data", job)


def _beyond(rows: int) -> Callable[[Answer], bool]:
    return lambda job: _rows(job) > rows


def _rows(job: Answer) -> int:
    progress = job["market"]["progress"]
    return 0 if progress is None else int(progress["rows"])


def _check_charged_once(data: Path, job: str) -> None:
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        kinds = [
            row.kind for row in connection.execute(select(events.c.kind).where(events.c.job == job))
        ]
        charged = connection.execute(
            select(entries.c.amount).where(entries.c.job == job, entries.c.account.like("user:%"))
        ).scalars()
        assert [Decimal(amount) > 0 for amount in charged] == [True]
        held = connection.execute(select(entries.c.amount).where(entries.c.account == "held"))
        assert sum(held.scalars()) == 0
        assert connection.execute(select(jobs.c.status).where(jobs.c.id == job)).scalar() == (
            "succeeded"
        )
    engine.dispose()
    assert kinds.count("job.decided") == 1
    assert kinds.count("job.finished") == 1
    assert kinds.count("job.trained") >= 4
