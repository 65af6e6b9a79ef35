"""Local files of a job become uploads, and its model that of the zone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auctune.client import Client, Endpoint, JobSpec, JobTerms, Transport
from auctune.domain import InputError
from support.scripted_server import ScriptedServer

ZONES = {
    "data": [
        {"id": "first", "kind": "auction", "model": "tiny"},
        {"id": "sites", "kind": "edge", "model": "small"},
    ]
}
NO_FILE: dict[str, Any] = {"data": []}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    found = ScriptedServer()
    yield found
    found.stop()


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Client]:
    with Client(Transport(Endpoint(server.url, "sk-key"))) as found:
        yield found


def test_ids_of_uploads_stay_and_the_model_is_that_of_the_zone(
    server: ScriptedServer, client: Client
) -> None:
    server.will_answer(200, ZONES)
    spec = JobSpec("file-a", validation_file="file-b", name="weather")
    found = client.prepare(spec, JobTerms(zone="first"))
    assert found == JobSpec("file-a", validation_file="file-b", name="weather", model="tiny")
    assert [asked[:2] for asked in server.asked] == [("GET", "/v1/zones")]


def test_data_at_sites_are_uploaded_and_the_first_stands_for_the_training_file(
    server: ScriptedServer, client: Client, tmp_path: Path
) -> None:
    sites = {}
    server.will_answer(200, ZONES)
    for name in ("north", "south"):
        (tmp_path / name).write_text("{}")
        sites[name] = str(tmp_path / name)
        server.will_answer(200, NO_FILE)
        server.will_answer(200, {"id": f"file-{name}"})
    found = client.prepare(JobSpec(sites=sites), JobTerms())
    # The first zone of kind edge, as no zone is named.
    assert found == JobSpec(
        "file-north", sites={"north": "file-north", "south": "file-south"}, model="small"
    )


def test_a_file_that_the_service_has_is_not_uploaded_again(
    server: ScriptedServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    server.will_answer(200, {"data": [{"id": "file-known", "status": "processed"}]})
    spec = JobSpec(str(tmp_path / "rows.jsonl"), model="tiny")
    assert client.prepare(spec, JobTerms()).training_file == "file-known"
    assert [asked[0] for asked in server.asked] == ["GET"]


def test_a_file_that_cannot_be_read_is_named(client: Client, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read \(No such file"):
        client.prepare(JobSpec(missing, model="tiny"), JobTerms())


def test_a_submitted_job_is_sent_with_an_idempotency_key(
    server: ScriptedServer, client: Client
) -> None:
    market = {"decision": "admitted", "state": "planned"}
    record = {"id": "ftjob-weather1", "status": "queued", "market": market, "metadata": None}
    server.will_answer(200, record)
    job = client.submit(JobSpec("file-a", model="tiny"), JobTerms(bid="4.00", deadline="+2h"))
    (method, path, headers, body) = server.asked[0]
    assert (method, path, job.name) == ("POST", "/v1/fine_tuning/jobs", "weather1")
    assert headers["Idempotency-Key"]
    assert json.loads(body)["market"] == {"bid": "4.00", "deadline": "+2h"}
