"""What is said of a job that is watched, where there is no terminal."""

import itertools
from typing import Any

import pytest

from auctune.cli._support.job_text import decision_text, end_text
from auctune.cli.watch import JobWatchDisplay
from auctune.client.job import Job


def make_job(state: str, rows: int) -> Job:
    progress = {"rows": rows, "total_rows": 480, "first_loss": None, "last_loss": None}
    market: dict[str, Any] = {
        "state": state,
        "decision": "admitted",
        "payment": "1.0000",
        "refunded": False,
        "bid": "2.0000",
        "plan": None,
        "progress": progress,
        "notes": [],
    }
    return Job.read(
        {"id": "ftjob-1", "status": "queued", "market": market, "metadata": {"name": "weather"}}
    )


def test_a_pause_and_its_end_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    seen = [None, *(make_job(state, 100) for state in ("planned", "paused", "paused", "planned"))]
    with JobWatchDisplay() as display:
        for before, job in itertools.pairwise(seen):
            assert job is not None
            display.show_change(before, job)
    told = [line[10:] for line in capsys.readouterr().out.splitlines()]
    assert told[1:] == ["weather paused 100/480 rows", "weather planned 100/480 rows"]


def test_a_job_that_ends_before_it_was_decided_on_is_told_once_and_not_as_rejected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = make_job("validating", 0)
    before.market["decision"] = None
    error = {"code": "invalid_request", "message": "training_file: is empty", "param": None}
    over = {"state": "failed", "metered": None, "refunded": False}
    record = {**before.record, "status": "failed", "error": error}
    with JobWatchDisplay() as display:
        display.show_change(before, Job.read({**record, "market": {**before.market, **over}}))
    told = [line[10:] for line in capsys.readouterr().out.splitlines()]
    assert told == ["weather failed: training_file: is empty"]


def test_a_paused_job_says_so_at_first_sight(capsys: pytest.CaptureFixture[str]) -> None:
    with JobWatchDisplay() as display:
        display.show_change(None, make_job("paused", 0))
    assert "weather paused 0/480 rows" in capsys.readouterr().out


def test_a_bid_that_was_only_asked_about_is_not_said_to_be_admitted() -> None:
    assert decision_text(make_job("what_if", 0)).plain == (
        "weather would be admitted, at 1.0000 (bid 2.0000)"
    )
    assert decision_text(make_job("planned", 0)).plain == (
        "weather admitted: pays 1.0000 (bid 2.0000)"
    )


def test_one_measurement_of_the_loss_is_shown_once() -> None:
    job = make_job("finished", 480)
    record = {**job.record, "status": "succeeded"}
    for first, words in ((0.333, "loss 0.333"), (0.5, "loss 0.500 to 0.333")):
        progress = {**job.market["progress"], "first_loss": first, "last_loss": 0.333}
        done = Job.read({**record, "market": {**job.market, "progress": progress}})
        assert end_text(done).plain == f"weather done: {words}"


def test_a_refunded_job_has_paid_nothing() -> None:
    job = make_job("refunded", 0)
    assert job.cost == "1.0000"
    assert Job.read({**job.record, "market": {**job.market, "refunded": True}}).cost == "0.0000"
