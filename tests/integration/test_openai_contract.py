"""Answers of OpenAI's routes validate against OpenAI's document, whatever happens to a job.

All other tests check the answers that they get, too: `support.serving` and
`support.service_process` look at each of them.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from auctune.domain.epoch_metrics import EpochMetrics
from support.openai_contract import ANSWERS, JSON, find_route, violations
from support.serving import Served, make_file, serving

# Bids, pauses and resumes before the last one, which is refused.
BIDS = 7
EPOCHS = [
    EpochMetrics(epoch=1, step=10, train_loss=1.5, train_accuracy=0.25),
    EpochMetrics(2, 20, 0.5, 0.5, valid_loss=1.0, valid_accuracy=0.25),
]
PAIR = {
    "input": {"messages": [{"role": "user", "content": "Is it open?"}]},
    "preferred_output": [{"role": "assistant", "content": "Yes, until six."}],
    "non_preferred_output": [{"role": "assistant", "content": "Look it up."}],
}
JOBS = "/v1/fine_tuning/jobs"


class Recorder:
    """A user of OpenAI's routes; `answers` are those that it got: path, method, status, body."""

    def __init__(self, served: Served, http: httpx2.Client) -> None:
        self._served, self._http = served, http
        self.answers: list[tuple[str, str, int, Any]] = []

    def ask(self, method: str, path: str, status: int = 200, **request: Any) -> Any:
        answer = self._http.request(method, path, **request)
        assert answer.status_code == status, answer.text
        self.answers.append((path, method, status, answer.json()))
        return answer.json()

    def create(self, file: str, method: str = "supervised", **market: Any) -> Any:
        body = {
            "model": "tiny",
            "training_file": file,
            "method": {"type": method},
            "metadata": {"method": method},
            "market": {"bid": "100", "deadline": "+20m", **market},
        }
        return self.ask("POST", JOBS, json=body)

    def job(self, job: Any) -> Any:
        return self.ask("GET", f"{JOBS}/{job['id']}")

    def end(self, job: Any, action: str = "cancel") -> Any:
        return self.ask("POST", f"{JOBS}/{job['id']}/{action}")

    def pages(self, path: str, num_items: int) -> None:
        """Read a list in pages of one item, and whole."""
        after: dict[str, str] = {}
        for remaining in range(num_items, 0, -1):
            page = self.ask("GET", path, params={"limit": "1", **after})
            assert (len(page["data"]), page["has_more"]) == (1, remaining > 1)
            after = {"after": page["data"][0]["id"]}
        assert len(self.ask("GET", path)["data"]) == num_items


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    file = make_file(bids_per_day=BIDS)
    with serving(tmp_path_factory.mktemp("market"), file) as served, served.http() as http:
        recorder = Recorder(served, http)
        play(recorder, served)
        yield recorder


def play(user: Recorder, served: Served) -> None:
    """Ask all routes, in every state of a file and a job."""
    user.ask("GET", "/v1/files")
    user.ask("GET", JOBS)
    bad = user.ask(
        "POST",
        "/v1/files",
        data={"purpose": "fine-tune"},
        files={"file": ("bad.jsonl", b"no json at all\n")},
    )
    texts = served.upload()
    pairs = served.upload(rows=f"{json.dumps(PAIR)}\n" * 20)
    client = served.client()
    client.files.wait_for_processing(bad["id"], poll_interval=0.05)
    assert user.ask("GET", f"/v1/files/{bad['id']}")["status"] == "error"
    user.ask("GET", f"/v1/files/{texts}")
    user.pages("/v1/files", 3)
    user.ask("DELETE", f"/v1/files/{bad['id']}")

    rejected = user.create(texts, bid="0.0001")
    assert rejected["error"]["code"] == "bid_rejected"
    user.create(texts, what_if=True)
    # A length that nobody has asked for: the size is not known yet.
    early = user.create(texts, lora={"max_length": 77})
    assert early["status"] == "validating_files"
    served.wait_for(lambda: client.fine_tuning.jobs.retrieve(early["id"]), "queued")
    user.end(early, "pause")
    assert user.job(early)["market"]["state"] == "paused"
    user.end(early, "resume")
    assert user.end(early)["status"] == "cancelled"

    for file, method in ((texts, "supervised"), (pairs, "dpo")):
        job = user.create(file, method)
        assert (job["status"], job["method"]["type"]) == ("queued", method)
        served.train(job["id"], 20)
        assert user.job(job)["status"] == "running"
        served.finish(job["id"], "ada", epochs=EPOCHS)
        assert user.job(job)["status"] == "succeeded"
        user.pages(f"{JOBS}/{job['id']}/events", 3)
        user.pages(f"{JOBS}/{job['id']}/checkpoints", len(EPOCHS))
        user.ask("GET", f"/v1/files/{user.job(job)['result_files'][0]}")
    user.pages(JOBS, 4)
    assert len(user.ask("GET", JOBS, params={"metadata[method]": "dpo"})["data"]) == 1

    user.ask("POST", JOBS, 400, content=b"no json")
    user.ask("POST", JOBS, 400, json={"model": "tiny"})
    user.ask("POST", f"{JOBS}/{rejected['id']}/cancel", 400)
    user.ask("GET", JOBS, 400, params={"limit": "0"})
    user.ask("POST", "/v1/files", 400, data={"purpose": "batch"})
    user.ask("GET", JOBS, 401, headers={"Authorization": "Bearer sk-nobody"})
    user.ask("GET", f"/v1/files/{bad['id']}", 404)
    user.ask("GET", f"{JOBS}/ftjob-unknown/events", 404)
    terms = {"model": "tiny", "training_file": texts, "market": {"deadline": "+20m"}}
    with served.http() as http:
        quote = http.post("/v1/quotes", json=terms).json()
    while served.clock.time < quote["lines"][0]["start"]:
        served.clock.pass_slots(1)
    line = {"market": {"quote": quote["id"], "line": 0}}
    user.ask("POST", JOBS, 422, json=line)
    refused = user.ask("POST", JOBS, 429, json=line)
    assert refused["error"]["code"] == "quota_exceeded"


def test_every_answer_validates(recorder: Recorder) -> None:
    found = {
        (method, path): violations(path, method, status, body)
        for path, method, status, body in recorder.answers
    }
    assert {where: one for where, one in found.items() if one} == {}


def test_a_job_is_seen_in_every_status_of_the_document(recorder: Recorder) -> None:
    jobs = [body for *_, body in recorder.answers if body.get("object") == "fine_tuning.job"]
    schema = ANSWERS["POST", JOBS]
    assert schema is not None
    assert {job["status"] for job in jobs} == {*schema.schema["properties"]["status"]["enum"]}


def required_fields(schema: JSON, value: Any) -> Iterator[tuple[Any, str]]:
    """Every object within a value that has required fields, with each of them."""
    schemas = [schema, *schema.get("anyOf", ())]
    for one in schemas:
        if isinstance(value, dict):
            for name in one.get("required", ()):
                yield value, name
            for name, inner in one.get("properties", {}).items():
                if name in value:
                    yield from required_fields(inner, value[name])
        if isinstance(value, list) and "items" in one:
            for each in value:
                yield from required_fields(one["items"], each)


def test_an_answer_without_a_required_field_or_with_another_type_does_not_validate(
    recorder: Recorder,
) -> None:
    seen: set[tuple[str, str]] = set()
    for path, method, status, body in recorder.answers:
        route = find_route(path, method)
        if status != 200 or route in seen or body.get("data") == []:
            continue
        seen.add(route)
        answer = ANSWERS[route]
        assert answer is not None
        broken = 0
        for holder, name in required_fields(answer.schema, body):
            value = holder.pop(name)
            assert violations(path, method, status, body), name
            holder[name] = {"of": "no type"} if not isinstance(value, dict) else 1
            assert violations(path, method, status, body), name
            holder[name] = value
            broken += 1
        assert broken
    assert len(seen) == 10
