"""A service whose database or clock is wrong for a while: it refuses, waits and goes on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.postgres import PostgresServer
from support.serving import EPOCH, Clock, Served, make_file, make_zone, serving
from support.waits import poll

pytest_plugins = ["support.store_fixtures"]

JSON = dict[str, Any]


@pytest.fixture(params=["sqlite", "postgresql"])
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any, Any]:
    """A database, what takes it away, and what brings it back."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("crashing_postgres")
        return server.make_database(), server.crash, server.start
    path, away = tmp_path / "own.db", tmp_path / "away.db"
    return f"sqlite:///{path}", lambda: path.rename(away), lambda: away.rename(path)


def bid(http: httpx2.Client, file: str) -> httpx2.Response:
    market = {"bid": "100", "deadline": "+20m", "zone": "default"}
    body = {"model": "tiny", "training_file": file, "market": market}
    return http.post("/v1/fine_tuning/jobs", json=body)


def quote(http: httpx2.Client, file: str) -> httpx2.Response:
    return http.post("/v1/quotes", json={"model": "tiny", "training_file": file})


def reason(http: httpx2.Client) -> str:
    ready = http.get("/ready")
    assert ready.status_code == 503
    return str(ready.json()["reason"])


@pytest.mark.slow
def test_while_the_database_is_gone_bids_are_refused_and_those_in_progress_wait(
    tmp_path: Path, outage: tuple[str, Any, Any]
) -> None:
    database, take_away, bring_back = outage
    with (
        serving(tmp_path / "data", database=database) as served,
        served.http() as http,
        ThreadPoolExecutor(2) as pool,
    ):
        file = served.upload()
        earlier = bid(http, file).json()["id"]
        take_away()
        waits = pool.submit(lambda: bid(http, file))
        poll(lambda: served.service.committer.outage is not None)
        # Nodes go on: what they report is recorded when the database is back.
        trains = pool.submit(lambda: served.train(earlier, 10))
        assert reason(http) == "the database cannot be written"
        for refused in (bid(http, file), http.post("/v1/webhooks", json={"url": "https://a.de"})):
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            error = refused.json()["error"]
            assert (error["code"], str(tmp_path) in error["message"]) == ("unavailable", False)
        assert http.get(f"/v1/fine_tuning/jobs/{earlier}").status_code in (200, 503)
        assert not waits.done()
        bring_back()
        assert waits.result(60).json()["status"] == "queued"
        trains.result(60)
        assert http.get("/ready").json() == {"status": "ready"}
        shown = http.get(f"/v1/fine_tuning/jobs/{earlier}").json()
        assert shown["status"] == "running"
        assert bid(http, file).status_code == 200
        assert len(http.get("/v1/fine_tuning/jobs").json()["data"]) == 3


def test_a_clock_that_is_set_back_ends_no_job_and_takes_no_bids_until_it_is_right(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served, served.http() as http:
        file = served.upload()
        assert bid(http, file).status_code == 200
        served.clock.jump(-10_800.0)
        served.clock.pass_slots(2)
        assert "jumped 10,800 s back" in reason(http)
        refused = bid(http, file)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        # Slots go on meanwhile.
        before = served.ask(lambda zone: zone.clock.slot())
        served.clock.pass_slots(1)
        assert served.ask(lambda zone: zone.clock.slot()) == before + 1
        served.clock.jump(10_800.0)
        assert http.get("/ready").json() == {"status": "ready"}
        assert bid(http, file).status_code == 200


@contextmanager
def started(folder: Path, clock: Clock, key: str | None = None) -> Iterator[tuple[Served, Any]]:
    with serving(folder, make_file([make_zone()]), clock) as served:
        if key is not None:
            served.users["ada"] = key
        with served.http() as http:
            yield served, http


@pytest.mark.slow
def test_a_zone_that_was_open_while_the_clock_was_ahead_waits_for_its_time(tmp_path: Path) -> None:
    clock = Clock()
    clock.jump(10_800.0)
    with started(tmp_path, clock) as (served, http):
        file, key = served.upload(), served.users["ada"]
        job = bid(http, file).json()["id"]
    clock.jump(-10_800.0)
    for _ in range(2):
        with started(tmp_path, clock, key) as (served, http):
            assert "ends at 2027-01-15T11:" in reason(http)
            for refused in (bid(http, file), quote(http, file)):
                assert refused.status_code == 503
                assert "clock is at 2027-01-15T08:" in refused.json()["error"]["message"]
            assert http.get(f"/v1/fine_tuning/jobs/{job}").json()["status"] == "queued"
        clock.pass_slots(1)
    with started(tmp_path, clock, key) as (served, http):
        clock.time = EPOCH + 10_800.0 + 1.0
        assert http.get("/ready").json() == {"status": "ready"}
        # A known file is looked at again until the base's tokenizer is known.
        later = f"/v1/fine_tuning/jobs/{bid(http, file).json()['id']}"
        poll(lambda: http.get(later).json()["status"] == "queued")
