"""Open jobs are counted once each, whoever asks at once."""

import pytest

from auctune.service.accounts.limits import LimitReachedError, OpenJobs
from auctune.service.storage.queries import JobReadModel, Status


def row(job: str, status: Status, owner: str = "ada") -> JobReadModel:
    return JobReadModel(job, "north", 1, owner, 0.0, status, {})


def test_a_job_in_work_takes_room_and_is_counted_once_when_it_is_noted() -> None:
    jobs = OpenJobs(limit=2)
    with jobs.reserve("ada", "a"):
        jobs.update([row("a", Status.QUEUED)])
        with jobs.reserve("ada", "b"), pytest.raises(LimitReachedError), jobs.reserve("ada", "c"):
            pass
        with jobs.reserve("bob", "d"):
            pass
    assert jobs.jobs_of("ada") == {"a"}


def test_what_is_over_makes_room_and_what_failed_took_none() -> None:
    jobs = OpenJobs(limit=1, held=[("ada", "old")])
    with pytest.raises(LimitReachedError), jobs.reserve("ada", "new"):
        pass
    jobs.update([row("old", Status.SUCCEEDED)])
    with jobs.reserve("ada", "rejected"):
        jobs.update([row("rejected", Status.FAILED)])
    with jobs.reserve("ada", "new"):
        jobs.update([row("new", Status.VALIDATING)])
    assert jobs.jobs_of("ada") == {"new"}
    assert jobs.count == 1
