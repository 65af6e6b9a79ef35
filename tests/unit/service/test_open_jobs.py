"""Open jobs are counted once each, whoever asks at once."""

import pytest

from auctune.service.access.open_jobs import OpenJobs, TooManyError
from auctune.service.zones.job_row import JobRow, Status


def row(job: str, status: Status, owner: str = "ada") -> JobRow:
    return JobRow(job, "north", 1, owner, 0.0, status, {})


def test_a_job_in_work_takes_room_and_is_counted_once_when_it_is_noted() -> None:
    jobs = OpenJobs(limit=2)
    with jobs.room("ada", "a"):
        jobs.note([row("a", Status.QUEUED)])
        with jobs.room("ada", "b"), pytest.raises(TooManyError), jobs.room("ada", "c"):
            pass
        with jobs.room("bob", "d"):
            pass
    assert jobs.of("ada") == {"a"}


def test_what_is_over_makes_room_and_what_failed_took_none() -> None:
    jobs = OpenJobs(limit=1, held=[("ada", "old")])
    with pytest.raises(TooManyError), jobs.room("ada", "new"):
        pass
    jobs.note([row("old", Status.SUCCEEDED)])
    with jobs.room("ada", "rejected"):
        jobs.note([row("rejected", Status.FAILED)])
    with jobs.room("ada", "new"):
        jobs.note([row("new", Status.VALIDATING)])
    assert jobs.of("ada") == {"new"}
    assert jobs.count == 1
