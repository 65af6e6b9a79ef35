"""One job of a service that is disturbed, and what must have come of it."""

import csv
import io
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from sqlalchemy import create_engine, select

from auctune.service.storage.tables import entries, events, jobs
from support.service_process import Answer, ServiceProcess

REQUEST = {
    "model": "tiny",
    "hyperparameters": {"n_epochs": 3, "batch_size": 4},
    "seed": 7,
    "market": {"bid": "50", "deadline": "+280s", "lora": {"rank": 4, "learning_rate": 0.01}},
}


def submit(service: ServiceProcess, file: str, deadline: str = "+280s") -> str:
    body = {**REQUEST, "training_file": file}
    body["market"] = {**REQUEST["market"], "deadline": deadline}  # type: ignore[dict-item]
    status, answer = service.ask("POST", "/v1/fine_tuning/jobs", body)
    assert status == 200, answer
    assert answer["status"] == "queued", answer
    job: str = answer["id"]
    return job


def adapter(service: ServiceProcess, job: str) -> bytes:
    found = service.wait_for_job(job, lambda one: one["status"] == "succeeded")
    assert found["status"] == "succeeded", found
    archive = zipfile.ZipFile(io.BytesIO(service.download(found["result_files"][-1])))
    name = next(name for name in archive.namelist() if name.endswith(".safetensors"))
    return archive.read(name)


def metrics(service: ServiceProcess, job: str) -> list[dict[str, str]]:
    """Lines of the first result file of a job that succeeded, as text by column."""
    content = service.download(service.job(job)["result_files"][0]).decode()
    return list(csv.DictReader(content.splitlines()))


def beyond(rows: int) -> Callable[[Answer], bool]:
    """Whether a job has trained more rows than that."""
    return lambda job: rows_of_job(job) > rows


def rows_of_job(job: Answer) -> int:
    progress = job["market"]["progress"]
    return 0 if progress is None else int(progress["rows"])


def check_charged_once(data: Path, job: str) -> None:
    """That a job that succeeded was decided and charged once, and trained in several slots."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        kinds = [
            row.type for row in connection.execute(select(events.c.type).where(events.c.job == job))
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
    # Each of the three kills waited for rows of another slot.
    assert kinds.count("job.trained") >= 3
