"""Files that expire: by their uploader's wish, and by the operator's policy."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openai
import pytest

import auctune.service.service as service_module
from auctune.service.config.models import FilesConfig, ServiceConfig
from support.page_visitor import PageVisitor
from support.serving import ROWS, SLOT_SECONDS, Clock, Served, make_file, make_zone, serving

HOUR, DAY = 3600, 86_400
JOBS = "/v1/fine_tuning/jobs"


def settings(**files: Any) -> ServiceConfig:
    # Deadlines are longer than the shortest expiry.
    zone = make_zone(slots=20 * HOUR // int(SLOT_SECONDS))
    return make_file([zone]).model_copy(update={"files": FilesConfig(**files)})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, settings()) as opened:
        yield opened


def upload(client: openai.OpenAI, seconds: int = HOUR) -> Any:
    return client.files.create(
        file=("data.jsonl", ROWS.encode()),
        purpose="fine-tune",
        expires_after={"anchor": "created_at", "seconds": seconds},
    )


def examined(client: openai.OpenAI, seconds: int = HOUR) -> str:
    file: str = upload(client, seconds).id
    client.files.wait_for_processing(file, poll_interval=0.05, max_wait_seconds=30)
    return file


def is_stored(served: Served, file: str) -> bool:
    return served.service.files.blobs.path(file).exists()


def sweep(served: Served) -> int:
    deleted: int = served.run(served.service.lifecycle.delete_expired)
    return deleted


@pytest.mark.parametrize("seconds", [HOUR, 30 * DAY])
def test_a_file_shows_when_it_expires_wherever_it_is_returned(served: Served, seconds: int) -> None:
    client = served.client()
    file = upload(client, seconds)
    assert file.expires_at == file.created_at + seconds
    assert client.files.retrieve(file.id).expires_at == file.expires_at
    kept = client.files.create(file=("kept.jsonl", ROWS.encode()), purpose="fine-tune")
    assert kept.expires_at is None
    listed = {one.id: one.expires_at for one in client.files.list()}
    assert listed == {file.id: file.expires_at, kept.id: None}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"anchor": "last_used_at", "seconds": "3600"}, "anchor"),
        ({"seconds": "3600"}, "anchor"),
        ({"anchor": "created_at"}, "seconds"),
        ({"anchor": "created_at", "seconds": "3599"}, "seconds"),
        ({"anchor": "created_at", "seconds": "2592001"}, "seconds"),
        ({"anchor": "created_at", "seconds": "3600.5"}, "seconds"),
        ({"anchor": "created_at", "seconds": "-3600"}, "seconds"),
        ({"anchor": "created_at", "seconds": "9" * 100}, "seconds"),
    ],
)
def test_another_anchor_or_span_is_refused_and_nothing_is_stored(
    served: Served, fields: dict[str, str], param: str
) -> None:
    form = {"purpose": "fine-tune"} | {f"expires_after[{k}]": v for k, v in fields.items()}
    with served.http() as http:
        answer = http.post("/v1/files", data=form, files={"file": ("a.jsonl", ROWS.encode())})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, f"expires_after[{param}]")
        assert error["type"] == "invalid_request_error"
        assert http.get("/v1/files").json()["data"] == []


def test_from_its_expiry_on_a_file_is_not_found_and_no_job_can_use_it(served: Served) -> None:
    client, market = served.client(), {"bid": "100", "deadline": "+4h"}
    file, other = examined(client), examined(client, 2 * HOUR)
    body = {"model": "tiny", "training_file": file, "market": market}
    with served.http() as http:
        quote = http.post("/v1/quotes", json=body).json()["id"]
        served.clock.time += HOUR - 1
        assert client.files.retrieve(file).id == file
        served.clock.time += 1
        for ask in (client.files.retrieve, client.files.content, client.files.delete):
            with pytest.raises(openai.NotFoundError):
                ask(file)
        assert [one.id for one in client.files.list()] == [other]
        accepted = {**body, "market": {"quote": quote, "line": 0}}
        using = {**body, "training_file": other, "validation_file": file}
        for path, asked, param in (
            (JOBS, body, "training_file"),
            (JOBS, using, "validation_file"),
            ("/v1/quotes", body, "training_file"),
            (JOBS, accepted, "training_file"),
        ):
            answer = http.post(path, json=asked)
            error = answer.json()["error"]
            assert (answer.status_code, error["param"]) == (400, param)
            assert "there is no file" in error["message"]
    # All of it before anything is deleted.
    assert is_stored(served, file)
    assert sweep(served) == 1
    assert (is_stored(served, file), is_stored(served, other)) == (False, True)
    row = served.service.queries.file(file)
    assert row is not None
    assert row.deleted_at == served.clock.time


def test_a_file_that_an_open_job_needs_is_kept_until_the_job_is_over(served: Served) -> None:
    client = served.client()
    file = examined(client)
    job = served.bid(client, file, deadline="+10h").id
    client.fine_tuning.jobs.pause(job)
    served.clock.time += HOUR
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file)
    assert sweep(served) == 0
    assert is_stored(served, file)
    assert client.fine_tuning.jobs.retrieve(job).training_file == file
    client.fine_tuning.jobs.cancel(job)
    assert sweep(served) == 1
    assert not is_stored(served, file)


def test_a_pending_job_finds_the_file_that_expires_before_it_is_decided(served: Served) -> None:
    client = served.client()
    file = examined(client)
    # Nobody has counted rows of this length: the job is received, and waits for the count.
    body = {
        "model": "tiny",
        "training_file": file,
        "market": {"bid": "100", "deadline": "+10h", "lora": {"max_length": 100}},
    }
    gateway = served.auction()
    inspect, reached = gateway._data.inspect, []

    async def later(submission: Any) -> Any:
        served.clock.time += HOUR
        reached.append(await served.service.lifecycle.delete_expired())
        return await inspect(submission)

    gateway._data.inspect = later  # type: ignore[method-assign]
    with served.http() as http:
        job = http.post(JOBS, json=body).json()["id"]
        found = served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job), "queued")
    assert reached == [0]
    assert found.training_file == file
    assert is_stored(served, file)


def test_what_expired_while_the_service_was_down_is_deleted_after_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with serving(tmp_path, settings(), clock) as before:
        key = before.key("ada")
        file = upload(before.client(key)).id
    clock.time += HOUR
    monkeypatch.setattr(service_module, "_EXPIRY_SECONDS", 0.05)
    with serving(tmp_path, settings(), clock) as after:
        after.wait_for(lambda: Stored(is_stored(after, file)), "deleted")
        with pytest.raises(openai.NotFoundError):
            after.client(key).files.retrieve(file)


class Stored:
    def __init__(self, is_stored: bool) -> None:
        self.status = "stored" if is_stored else "deleted"


def test_results_and_data_are_kept_for_as_long_as_the_operator_says(tmp_path: Path) -> None:
    with serving(tmp_path, settings(results_days=2, data_days=1.5)) as served:
        client = served.client()
        data = client.files.create(file=("data.jsonl", ROWS.encode()), purpose="fine-tune")
        assert data.expires_at == data.created_at + 1.5 * DAY
        file = examined(client, 30 * DAY)
        job = served.bid(client, file, deadline="+10h").id
        served.train(job, 150)
        adapter = served.finish(job, "ada")
        done = client.fine_tuning.jobs.retrieve(job)
        for result in done.result_files:
            found = client.files.retrieve(result)
            assert found.expires_at == found.created_at + 2 * DAY
        assert done.fine_tuned_model in [one.id for one in client.models.list()]
        until = datetime.fromtimestamp(served.clock.time + 2 * DAY, UTC).isoformat()
        visitor = PageVisitor(served, served.users["ada"])
        assert f'kept until <time datetime="{until}">' in visitor.get(f"/page/jobs/{job}").text
        files = visitor.get("/page/files").text
        assert f'<time datetime="{until}">' in files
        assert "An upload is deleted 1.5 days after it was stored" in files
        assert "Results are deleted 2 days after they were stored" in files
        served.clock.time += 2 * DAY
        # Before anything was deleted, and after it.
        for num_deleted in (3, 0):
            assert done.fine_tuned_model not in [one.id for one in client.models.list()]
            with pytest.raises(openai.NotFoundError):
                client.models.retrieve(str(done.fine_tuned_model))
            with pytest.raises(openai.NotFoundError):
                client.files.content(adapter)
            with pytest.raises(openai.BadRequestError, match="has been deleted"):
                client.fine_tuning.jobs.create(model=str(done.fine_tuned_model), training_file=file)
            # The job still lists them, as after a deletion on request.
            assert client.fine_tuning.jobs.retrieve(job).result_files == done.result_files
            assert sweep(served) == num_deleted
        # What was there before a change of the policy stays as it was promised.
    with serving(tmp_path, settings(results_days=1)) as after:
        assert after.client(served.users["ada"]).files.retrieve(file).expires_at is not None


def test_the_erasure_of_a_user_deletes_what_has_expired_too(served: Served) -> None:
    file = upload(served.client()).id
    served.clock.time += HOUR
    with served.http(served.operator) as http:
        counts = http.delete("/v1/users/ada/data").json()
    assert counts["files"] == 1
    assert not is_stored(served, file)
