"""The rate that the load benchmark reports, and the route that is its baseline."""

import asyncio
import json
import random
from pathlib import Path

import httpx2
import pytest

from auctune.service.storage import Committer, EventLog, open_store
from minimal_route import make_app
from service_load import summarize
from support.load import Acknowledged, Load


def load_of(num_scheduled: int, num_answers: int, elapsed: float) -> Load:
    """Return a completed load whose last response came `elapsed` seconds after its start."""
    load = Load(("127.0.0.1", 0), [], 1, 0.0, random.Random(0))
    load.answers = [Acknowledged("token", "job", True, None, b"")] * num_answers
    load.waits = [0.1] * num_answers
    load.scheduled, load.begun, load.last_answer = num_scheduled, 1000.0, 1000.0 + elapsed
    return load


def test_the_achieved_rate_is_over_the_time_until_the_last_answer() -> None:
    # 63,000 bids planned for 60 s, all answered, the last one after 118 s.
    behind = summarize(load_of(63_000, 63_000, 118.0), 60.0, 40.0)
    assert behind.offered == pytest.approx(1050)
    assert behind.achieved == pytest.approx(63_000 / 118)
    assert behind.shortfall() == (
        "offered 1,050 bids per second, achieved 534: they differ by more than 2%, so the offered "
        "rate was not sustained; offer less with --rate"
    )


def test_bids_that_were_not_acknowledged_do_not_count() -> None:
    refused = summarize(load_of(1000, 970, 10.0), 10.0, 1.0)
    assert refused.achieved == pytest.approx(97)
    assert refused.shortfall() is not None
    none = summarize(load_of(1000, 0, 0.0), 10.0, 1.0)
    assert none.achieved == 0
    assert none.shortfall() is not None


def test_a_last_answer_a_little_after_the_plan_is_sustained() -> None:
    assert summarize(load_of(1000, 1000, 10.1), 10.0, 1.0).shortfall() is None


def test_the_minimal_route_writes_a_row_that_the_log_can_read(tmp_path: Path) -> None:
    async def post() -> str:
        with Committer(store) as committer:
            transport = httpx2.ASGITransport(make_app(committer))
            async with httpx2.AsyncClient(transport=transport, base_url="http://minimal") as client:
                answer = await client.post("/v1/fine_tuning/jobs", json={"bid": "1"})
        return str(answer.json()["id"])

    with open_store(tmp_path) as store:
        name = asyncio.run(post())
        (row,) = EventLog(store.reader).read_zone("minimal")
    assert (row.job, json.loads(row.body)) == (name, {"bid": "1"})
