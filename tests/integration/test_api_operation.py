"""Uploads, limits, bad input, and what operators do."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import openai
import pytest
from structlog.testing import capture_logs

from auctune.doctor.checks_network import answers_as_auctune
from auctune.files.schema import to_input_error
from auctune.service import service
from auctune.service.accounts.registry import Role
from auctune.service.erasure import erase
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage import Queries
from support.serving import (
    EPOCH,
    ROWS,
    Clock,
    Served,
    SharedDataClient,
    make_file,
    make_zone,
    serving,
)
from support.zone_state import records


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = make_file([make_zone(), make_zone("second")], upload_bytes=200_000)
    with serving(tmp_path_factory.mktemp("market"), file) as opened:
        yield opened


def send(http: httpx2.Client, **files: Any) -> httpx2.Response:
    fields = {"purpose": (None, "fine-tune"), "file": ("data.jsonl", ROWS.encode())} | files
    return http.post("/v1/files", files={k: v for k, v in fields.items() if v is not None})


def contents(served: Served) -> set[str]:
    return {path.name for path in (served.folder / "files").iterdir()}


def test_a_start_has_the_data_process_prepare_the_base_of_each_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[str] = []

    def prepare(client: SharedDataClient, base: str) -> None:
        prepared.append(base)

    monkeypatch.setattr(SharedDataClient, "prepare", prepare)
    other = str(tmp_path)
    zones = [make_zone(), make_zone("second"), make_zone("third", base=other)]
    with serving(tmp_path / "market", make_file(zones)):
        assert sorted(prepared) == sorted(["tiny", other])


def test_what_is_no_upload_is_refused_and_leaves_nothing(served: Served) -> None:
    with served.http(served.key("messy")) as http:
        before = contents(served)
        refused = {
            "purpose": send(http, purpose=None),
            "purpose ": send(http, purpose=(None, "assistants")),
            "file": send(http, file=("empty.jsonl", b"")),
            "file ": send(http, file=None),
            "file  ": send(http, file=("large.jsonl", b"x" * 200_001)),
            "expires_after": send(http, expires_after=(None, "1")),
        }
        for param, answer in refused.items():
            assert answer.status_code in (400, 413), answer.text
            assert answer.json()["error"]["param"] == param.strip()
        plain = http.post("/v1/files", content=b"no form")
        assert plain.json()["error"]["param"] == "Content-Type"
        cut = http.post(
            "/v1/files",
            content=b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nrow',
            headers={"Content-Type": "multipart/form-data; boundary=x"},
        )
        assert cut.status_code == 400
    assert contents(served) == before


def test_a_service_is_known_by_its_health(served: Served) -> None:
    assert answers_as_auctune(served.url)
    assert not answers_as_auctune(f"{served.url}/v1")


def test_a_stream_without_an_end_is_cut_off_at_the_limit(served: Served) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        while sent < 50_000_000:
            sent += 10_000
            yield b"r" * 10_000

    with served.http(served.key("hose")) as http:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        try:
            status = http.post("/v1/files", content=endless(), headers=headers).status_code
        except httpx2.TransportError:
            status = 413
    assert status == 413
    # What the sockets hold is sent; the file as a whole was not waited for.
    assert sent < 50_000_000


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\rows.jsonl", "rows.jsonl"),
        ("a\x00b\x1b[31m.jsonl", "ab[31m.jsonl"),
        ("Wetter für März.jsonl", "Wetter für März.jsonl"),
        ("x" * 400, "x" * 255),
    ],
)
def test_a_files_name_is_shown_and_used_for_nothing_else(
    served: Served, name: str, shown: str
) -> None:
    with served.http() as http:
        raw = name.encode().replace(b"\\", b"\\\\")
        body = (
            b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
            b'--x\r\ncontent-disposition: form-data; name="file"; filename="'
            + raw
            + b'"\r\n\r\n'
            + ROWS.encode()
            + b"\r\n--x--\r\n"
        )
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = http.post("/v1/files", content=body, headers=headers)
    assert answer.json()["filename"] == shown
    assert all(name.startswith("file-") for name in contents(served))


def test_a_file_that_an_open_job_needs_is_not_deleted(served: Served) -> None:
    client, file = served.client(), served.upload()
    job = served.bid(client, file, zone="second")
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.delete(file)
    assert refused.value.code == "file_in_use"
    client.fine_tuning.jobs.cancel(job.id)
    client.files.delete(file)
    assert file not in contents(served)
    with pytest.raises(openai.BadRequestError):
        served.bid(client, file)


def test_contents_that_a_killed_service_left_behind_are_gone_after_a_start(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        kept, deleted = served.upload(), served.upload()
        served.client().files.delete(deleted)
        for name in (deleted, "file-whoserownevercame"):
            (served.folder / "files" / name).write_bytes(b"somebody's rows")
    with serving(tmp_path) as served:
        assert contents(served) == {kept}


@pytest.mark.slow
def test_an_erased_file_stays_gone_though_it_is_looked_at_meanwhile(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        file = served.upload(served.key("leaver"))

        async def erase_while_looking() -> None:
            erasing = asyncio.create_task(erase(served.service, "leaver"))
            while not erasing.done():
                await served.service.files.set_error(file, "odd")
                await asyncio.sleep(0)
            assert (await erasing)["files"] == 1

        served.run(erase_while_looking)
        with served.http(served.key("leaver")) as http:
            assert http.get("/v1/files").json()["data"] == []


def test_no_job_is_ever_admitted_for_a_file_that_was_deleted_meanwhile(served: Served) -> None:
    client = served.client()

    def race(file: str) -> tuple[bool, bool]:
        def attempt(work: Any) -> bool:
            try:
                work()
            except openai.BadRequestError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            asked = pool.submit(attempt, lambda: served.bid(client, file))
            gone = pool.submit(attempt, lambda: client.files.delete(file))
            return asked.result(), gone.result()

    for _ in range(10):
        assert race(served.upload()) in ((True, False), (False, True))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"suffix": "a\x00b"}, "suffix"),
    ({"metadata": {"a": "b\x00"}}, "metadata.a"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    ({"seed": -1}, "seed"),
    ({"seed": True}, "seed"),
    ({"hyperparameters": {"n_epochs": 0}}, "hyperparameters.n_epochs"),
    ({"hyperparameters": {"n_epochs": 1.5}}, "hyperparameters.n_epochs"),
    ({"integrations": [{"type": "wandb"}]}, "integrations[0].wandb"),
    ({"integrations": [{"type": "mlflow", "wandb": {"project": "a"}}]}, "integrations[0].type"),
    ({"integrations": [{"type": "wandb", "wandb": {"project": "a"}}]}, "integrations"),
    ({"nonsense": 1}, "nonsense"),
    ({"model": "gpt-5"}, "model"),
    ({"training_file": "file-none"}, "training_file"),
    ({"validation_file": "file-none"}, "validation_file"),
    ({"market": {"deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "1"}}, "market.deadline"),
    ({"market": {"bid": "-1", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "NaN", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "1e99", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "0.00001", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "1", "deadline": "tomorrow"}}, "market.deadline"),
    ({"market": {"bid": "1", "deadline": "2001-01-01T00:00:00Z"}}, "market.deadline"),
    ({"market": {"bid": "1", "deadline": "2031-01-01T00:00:00"}}, "market.deadline"),
    ({"market": {"bid": "1", "deadline": "+5m", "zone": "mars"}}, "market.zone"),
    (
        {"market": {"bid": "1", "deadline": "+5m", "lora": {"target_modules": ["nose"]}}},
        "market.lora.target_modules",
    ),
    ({"market": {"quote": "quote-none", "line": 0}}, "market.quote"),
    ({"market": {"bid": True, "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "1_000", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "\u0661\u0662", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "-0", "deadline": "+5m"}}, "market.bid"),
    ({"market": {"bid": "1", "deadline": "+\u0665m"}}, "market.deadline"),
    ({"market": {"bid": "1", "deadline": "+999999999d"}}, "market.deadline"),
    ({"market": {"bid": "1", "deadline": "9999-12-31T23:59:59Z"}}, "market.deadline"),
    ({"market": {"bid": "1", "deadline": "+5m", "share": True}}, "market.share"),
    ({"market": {"bid": "1", "deadline": "+5m", "risk": "0.1"}}, "market.risk"),
    ({"x" * 5000: 1}, "x" * 199 + "\u2026"),
]


@pytest.mark.parametrize(("change", "param"), BAD, ids=[str(change)[:50] for change, _ in BAD])
def test_bad_input_is_named(served: Served, change: dict[str, Any], param: str) -> None:
    file = served.upload()
    right = {"model": "tiny", "training_file": file, "market": {"bid": "1", "deadline": "+5m"}}
    with served.http() as http:
        answer = http.post("/v1/fine_tuning/jobs", json={**right, **change})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert error["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"model": "\xff"}', b'{"model": "\\ud800"}', b"[" * 100_000, b"1e999"],
)
def test_what_is_no_request_is_refused(served: Served, body: bytes) -> None:
    with served.http() as http:
        for path in ("/v1/fine_tuning/jobs", "/v1/quotes"):
            answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, answer.text
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "param"),
    [
        ("GET", "/v1/files?limits=5", "limits"),
        ("GET", "/v1/files?limit=5&limit=6", "limit"),
        ("GET", "/v1/zones?kind=spot", "kind"),
        ("GET", "/v1/fine_tuning/jobs?meta[name]=a", "meta[name]"),
        ("GET", "/v1/fine_tuning/jobs?metadata=a", "metadata"),
        ("GET", "/v1/fine_tuning/jobs?metadata[name]=a&metadata[name]=b", "metadata[name]"),
        ("POST", "/v1/fine_tuning/jobs?what_if=true", "what_if"),
        ("POST", "/v1/quotes?zone=north", "zone"),
        ("DELETE", "/v1/webhooks/webhook-a?force=1", "force"),
    ],
)
def test_query_parameters_that_a_route_does_not_have_are_refused(
    served: Served, method: str, path: str, param: str
) -> None:
    with served.http() as http:
        answer = http.request(method, path)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/fine_tuning/jobs", '{"seed": 1, "seed": 2, MARKET}', "seed"),
        ("/v1/quotes", '{"metadata": {"name": "a", "name": "b"}, MARKET}', "name"),
        ("/v1/webhooks", '{"url": "https://a.example", "url": "https://b.example"}', "url"),
    ],
)
def test_a_key_that_a_body_has_twice_is_refused(
    served: Served, path: str, body: str, param: str
) -> None:
    market = '"market": {"bid": "1", "deadline": "+1h"}'
    start = f'{{"model": "tiny", "training_file": "{served.upload()}", '
    body = body.replace("MARKET", market)
    with served.http() as http:
        answer = http.post(path, content=body if "url" in body else start + body[1:])
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == param
        assert "given twice" in answer.json()["error"]["message"]
        is_listed = http.get("/v1/webhooks").json()["data"]
    assert not is_listed


def test_a_body_with_thousands_of_mistakes_is_refused_without_listing_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []

    def list_errors(error: Any, *rest: Any) -> Any:
        listed.append(error.error_count())
        return to_input_error(error, *rest)

    monkeypatch.setattr("auctune.service.http.requests.to_input_error", list_errors)
    modules: dict[str, Any] = {"model": "tiny", "training_file": "file-a"}
    modules |= {"market": {"lora": {"target_modules": [""] * 60_000}}}
    with served.http() as http:
        for body in ({f"a{n}": 0 for n in range(20_000)}, modules):
            for path in ("/v1/fine_tuning/jobs", "/v1/quotes"):
                answer = http.post(path, json=body)
                assert answer.status_code == 400
                assert "invalid keys or values" in answer.json()["error"]["message"]
    assert listed == []


def test_errors_show_the_beginning_of_what_is_long(served: Served) -> None:
    long = "9" * 4000
    right = {"model": "tiny", "training_file": "file-a"}
    with served.http() as http:
        answers = [
            http.post("/v1/quotes", json={**right, "market": {"deadline": long}}),
            http.post("/v1/quotes", json={**right, "model": long}),
            http.get("/v1/files", params={"after": long}),
            http.get(f"/v1/files/{long}"),
            http.get(f"/v1/{long}"),
        ]
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert len(answer.text) < 1000, answer.text


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("POST", "/v1/embeddings", "/v1/chat/completions"),
        ("POST", "/v1/batches", "/v1/fine_tuning/jobs"),
        ("PUT", "/v1/files", "does not support PUT"),
    ],
)
def test_what_is_not_offered_says_what_is(
    served: Served, method: str, path: str, said: str
) -> None:
    with served.http() as http:
        answer = http.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code in (404, 405)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "unknown_url"
    assert said in error["message"]


def test_answers_are_not_kept_and_not_guessed_at(served: Served) -> None:
    file = served.upload()
    with served.http() as http:
        paths = ("/health", "/v1/zones", f"/v1/files/{file}/content", "/v1/nothing")
        for answer in (*map(http.get, paths), http.post("/v1/fine_tuning/jobs", json={})):
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"


def test_a_users_bids_of_a_day_are_limited_and_others_have_theirs(tmp_path: Path) -> None:
    with serving(tmp_path, make_file(bids_per_day=3)) as served:
        file = served.upload()
        second = served.key("ada")
        body: dict[str, Any] = {"model": "tiny", "training_file": file}
        body |= {"market": {"bid": "0.0001", "deadline": "+20m"}}
        what_if = {**body, "market": {"bid": "1", "deadline": "+20m", "what_if": True}}
        with served.http(second) as http:
            for _ in range(5):
                assert http.post("/v1/fine_tuning/jobs", json=what_if).status_code == 200
                assert http.post("/v1/quotes", json=body).status_code == 200
            same = {"Idempotency-Key": "once"}
            for _ in range(5):
                again = http.post("/v1/fine_tuning/jobs", json=body, headers=same)
                assert again.json()["status"] == "failed"
            for _ in range(2):
                http.post("/v1/fine_tuning/jobs", json=body)
            refused = http.post("/v1/fine_tuning/jobs", json=body)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "quota_exceeded"
        assert 0 < int(refused.headers["Retry-After"]) <= 86_400 / 3
        other = served.upload(served.key("bob"))
        bid = served.bid(served.client(served.users["bob"]), other)
        assert bid.status == "queued"
        # Pauses and resumes are kept as bids are.
        with served.http(served.users["bob"]) as http:
            place = f"/v1/fine_tuning/jobs/{bid.id}"
            codes = [http.post(f"{place}/{act}").status_code for act in ("pause", "resume") * 2]
        assert 429 not in codes[:2]
        assert codes[2:] == [429, 429]


def test_bids_of_a_day_count_across_restarts(tmp_path: Path) -> None:
    file, clock = make_file(bids_per_day=3), Clock()
    body: dict[str, Any] = {"model": "tiny", "market": {"bid": "0.0001", "deadline": "+20m"}}
    with serving(tmp_path, file, clock) as served:
        body["training_file"] = served.upload()
        key = served.users["ada"]
        with served.http(key) as http:
            assert http.post("/v1/fine_tuning/jobs", json=body).status_code == 200
            assert http.post("/v1/fine_tuning/jobs", json=body).status_code == 200
    clock.time += 60.0
    with serving(tmp_path, file, clock) as served, served.http(key) as http:
        answers = [http.post("/v1/fine_tuning/jobs", json=body).status_code for _ in range(2)]
    assert answers == [200, 429]
    clock.time += 86_400.0
    with serving(tmp_path, file, clock) as served, served.http(key) as http:
        answers = [http.post("/v1/fine_tuning/jobs", json=body).status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]


def test_a_users_bytes_of_bids_of_a_day_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BID_BYTES_PER_DAY", 20_000)
    with serving(tmp_path) as served:
        body: dict[str, Any] = {"model": "tiny", "training_file": served.upload()}
        body |= {"market": {"bid": "0.0001", "deadline": "+20m"}}
        body |= {"metadata": {f"key {n}": "x" * 512 for n in range(16)}}
        with served.http() as http:
            statuses = [http.post("/v1/fine_tuning/jobs", json=body).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
    # One bid's bytes in the log, which are a little more than those of its request.
    monkeypatch.setattr(service, "BID_BYTES_PER_DAY", 40_000)
    with serving(tmp_path) as served:
        with served.http(served.key("ada")) as http:
            statuses = [http.post("/v1/fine_tuning/jobs", json=body).status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]


def test_a_file_of_an_open_job_stays_while_its_zone_is_out_of_the_settings(tmp_path: Path) -> None:
    with serving(tmp_path, make_file([make_zone(), make_zone("second")])) as served:
        key = served.key("ada")
        needed, other = served.upload(), served.upload()
        job = served.bid(served.client(), needed, zone="second")
        with served.http() as http:
            http.post(f"/v1/fine_tuning/jobs/{job.id}/pause").raise_for_status()
    with serving(tmp_path) as served, served.http(key) as http:
        refused = http.delete(f"/v1/files/{needed}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "file_in_use")
        assert http.delete(f"/v1/files/{other}").status_code == 200
        assert http.get(f"/v1/files/{needed}").status_code == 200


def test_a_body_that_is_far_too_long_is_not_read(served: Served) -> None:
    with served.http() as http:
        answer = http.post("/v1/fine_tuning/jobs", content=b" " * 3_000_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/users", "/v1/quotes"])
def test_a_body_of_unknown_length_that_is_too_long_is_answered_as_such(
    served: Served, path: str
) -> None:
    pieces = iter([b'{"url": "', *[b"a" * 10_000] * 40, b'"}'])
    with served.http(served.key("boss", Role.OPERATOR)) as http:
        answer = http.post(path, content=pieces, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    "extreme",
    [
        {"hyperparameters": {"n_epochs": 10**9}},
        {"hyperparameters": {"batch_size": 10**9}},
        {"hyperparameters": {"learning_rate_multiplier": 1e-300}},
        {"market": {"bid": "99999999999", "deadline": "+999999999d"}},
        {"market": {"bid": 0, "deadline": "9999-12-31T23:59:59Z"}},
        {"market": {"bid": "1", "deadline": "+5m", "share": 1e-300}},
    ],
    ids=str,
)
def test_extremes_are_decided_or_refused_and_nothing_breaks(
    served: Served, extreme: dict[str, Any]
) -> None:
    right = {"model": "tiny", "training_file": served.upload()}
    terms = {"market": {"bid": "1", "deadline": "+5m"}}
    with served.http(is_checked=False) as http:
        answer = http.post("/v1/fine_tuning/jobs", json={**right, **terms, **extreme})
        assert answer.status_code in (200, 400), answer.text
        assert http.get("/ready").status_code == 200


def test_a_clock_that_jumps_forward_ends_no_job_and_takes_no_bids_until_it_is_back(
    served: Served,
) -> None:
    client, file = served.client(), served.upload()
    job = served.bid(client, file)
    assert job.market["decision"] == "admitted"
    served.clock.jump(3_600.0)
    served.clock.pass_slots(1)
    served.ask(lambda zone: zone.begin_slots())
    with served.http() as http:
        ready = http.get("/ready")
        assert ready.status_code == 503
        assert "jumped 3,600 s forward" in ready.json()["reason"]
        market = {"bid": "1", "deadline": "+5m", "zone": "default"}
        body = {"model": "tiny", "training_file": file, "market": market}
        refused = http.post("/v1/fine_tuning/jobs", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        served.clock.jump(-3_600.0)
        assert http.get("/ready").json() == {"status": "ready"}
        assert http.post("/v1/fine_tuning/jobs", json=body).status_code == 200
    served.ask(lambda zone: zone.begin_slots())
    assert client.fine_tuning.jobs.retrieve(job.id).status in ("queued", "running")


def test_a_job_that_is_cancelled_while_it_is_looked_at_is_never_admitted(served: Served) -> None:
    client, file = served.client(), served.upload()
    cancelled = 0
    for length in range(30, 40):
        job = served.bid(client, file, lora={"max_length": length})
        assert job.status == "validating_files"
        try:
            client.fine_tuning.jobs.cancel(job.id)
        except openai.BadRequestError:
            # It was looked at, decided on and rejected meanwhile.
            continue
        # What comes later on the actor finds it cancelled.
        served.upload()
        assert client.fine_tuning.jobs.retrieve(job.id).status == "cancelled"
        cancelled += 1
    assert cancelled > 0


def test_a_job_that_cannot_be_decided_on_by_a_mistake_of_ours_fails_and_costs_nothing(
    served: Served,
) -> None:
    key = served.key("unlucky")
    client, file = served.client(key), served.upload(key)
    zone, job = served.auction(), "ftjob-unlucky"
    training = Training(file)
    terms = {"model": "tiny", "training_file": file, "bid": "100", "deadline": EPOCH + 1200}
    request = {**terms, "validation_file": None, "metadata": None, "suffix": None}
    request |= {"learning_rate_multiplier": 1.0, "organization_id": "unlucky", "start_from": None}
    served.ask(lambda actor: actor.receive(job, "unlucky", request, training, None))

    async def decide() -> None:
        # What it asked for does not say what it bids.
        zone._enqueue(Submission(job, "unlucky", training, {}))

    served.run(decide)
    failed = served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job), "failed")
    assert failed.error is not None
    assert failed.error.code == "internal"
    assert not served.service.open_jobs.jobs_of("unlucky")
    with served.http(key) as http:
        assert float(http.get("/v1/ledger").json()["balance"]) == 0


def test_reads_of_one_user_leave_a_thread_to_others_however_long_they_take(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = served.key("seeker"), served.key("other")
    client, file = served.client(key), served.upload(key)
    jobs = [served.bid(client, file, bid="0.0001").id for _ in range(3)]
    begun, may_go_on, scan = Event(), Event(), Queries.jobs

    def slow_scan(pages: Queries, owner: str | None, *rest: Any, **more: Any) -> Any:
        if owner == "seeker":
            begun.set()
            may_go_on.wait(30)
        return scan(pages, owner, *rest, **more)

    monkeypatch.setattr(Queries, "jobs", slow_scan)

    def search(_: int) -> list[str]:
        with served.http(key) as http:
            found = http.get("/v1/fine_tuning/jobs", params={"metadata": "null", "limit": 2})
            return [job["id"] for job in found.json()["data"]]

    with ThreadPoolExecutor(40) as pool:
        searches = [pool.submit(search, number) for number in range(40)]
        assert begun.wait(30)
        with served.http(other) as http:
            for _ in range(3):
                assert http.get("/v1/fine_tuning/jobs").json()["data"] == []
        may_go_on.set()
        assert all(one.result() == jobs[:0:-1] for one in searches)


@pytest.mark.slow
def test_users_have_limits_and_others_have_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A burst of 200.
    monkeypatch.setattr(service, "BURST_SECONDS", 200 / 1e-6)
    limits: dict[str, Any] = {"open_jobs": 3, "files": 4, "requests_per_second": 1e-6}
    with serving(tmp_path, make_file(**limits)) as served:
        client, file = served.client(), served.upload()

        def bid(_: int) -> str | None:
            try:
                job: str = served.bid(client, file).id
            except openai.RateLimitError:
                return None
            return job

        with ThreadPoolExecutor(8) as pool:
            jobs = [job for job in pool.map(bid, range(8)) if job]
        assert len(jobs) == 3
        client.fine_tuning.jobs.cancel(jobs[0])
        assert bid(0) is not None
        other = served.upload(served.key("other"))
        assert served.bid(served.client(served.users["other"]), other).status == "queued"
        for _ in range(3):
            client.files.create(file=("a.jsonl", ROWS.encode()), purpose="fine-tune")
        with pytest.raises(openai.RateLimitError):
            client.files.create(file=("a.jsonl", ROWS.encode()), purpose="fine-tune")
        with served.http() as http:
            answers = [http.get("/v1/zones") for _ in range(200)]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["Retry-After"]) >= 1
        with served.http(served.users["other"]) as http:
            assert http.get("/v1/zones").status_code == 200


def test_a_paused_zone_takes_no_bids_until_it_is_resumed_also_after_a_restart(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served:
        client, file = served.client(), served.upload()
        admitted = served.bid(client, file).id
        with served.http(served.operator) as http:
            assert http.post("/v1/zones/default/pause").json()["accepting_bids"] is False
        with pytest.raises(openai.BadRequestError) as refused:
            served.bid(client, file)
        assert refused.value.code == "zone_paused"
        secret, clock = served.users["ada"], served.clock
    with serving(tmp_path, clock=clock) as served:
        served.users["ada"] = secret
        client = served.client()
        with pytest.raises(openai.BadRequestError):
            served.bid(client, file)
        assert client.fine_tuning.jobs.retrieve(admitted).status == "queued"
        with served.http(served.operator) as http:
            assert http.post("/v1/zones/default/resume").json()["accepting_bids"] is True
        later = served.bid(client, file).id
        served.wait_for(lambda: client.fine_tuning.jobs.retrieve(later), "queued")


def test_jobs_of_a_zone_that_is_closed_can_still_be_read(tmp_path: Path) -> None:
    with serving(tmp_path, make_file([make_zone(), make_zone("second")])) as served:
        job = served.bid(served.client(), served.upload(), zone="second")
        secret, clock = served.users["ada"], served.clock
    with capture_logs() as logs, serving(tmp_path, make_file([make_zone()]), clock) as served:
        client = served.client(secret)
        assert client.fine_tuning.jobs.retrieve(job.id).market == job.market
        with pytest.raises(openai.BadRequestError) as refused:
            client.fine_tuning.jobs.cancel(job.id)
        assert refused.value.code == "zone_closed"
        with served.http(secret) as http:
            answer = http.get(f"/v1/fine_tuning/jobs/{job.id}/explanation")
        assert answer.json()["error"]["code"] == "zone_closed"
    (warning,) = (one for one in logs if "not in the settings" in one["event"])
    assert (warning["log_level"], warning["zone"], warning["open_jobs"]) == ("warning", "second", 1)


def test_an_operator_sees_decisions_plans_and_prices(served: Served) -> None:
    client, file = served.client(served.key("seen")), served.upload(served.users["seen"])
    job = served.bid(client, file, bid="33.3300", zone="second")
    with served.http(served.operator) as http:
        decisions = http.get("/v1/zones/second/decisions", params={"limit": 1}).json()
        assert decisions["data"][0]["job"] == job.id
        assert decisions["data"][0]["bid"] == "33.3300"
        plans = http.get("/v1/zones/second/plans").json()["data"]
        assert job.market["plan"] in [plan["plan"] for plan in plans]
        state = http.get("/v1/zones/second/state").json()
        nodes = [node["id"] for node in state["nodes"]]
        for title in ("Compute", "Memory"):
            slots = records(state, title)
            assert [name for name in slots[0] if not name.endswith("in use")] == [
                "slot",
                "begins",
                *nodes,
            ]
            assert any(slot[f"{node} in use"] > 0 for slot in slots for node in nodes)
        assert [node["compute_used"] for node in state["nodes"]] == [
            records(state, "Compute")[0][f"{node} in use"] for node in nodes
        ]


def test_a_drained_node_has_its_jobs_planned_elsewhere_at_no_charge(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        client = served.client()
        job = served.bid(client, served.upload())
        node = job.market["plan"]["cells"][0]["node"]
        with served.http(served.operator) as http:
            http.post(f"/v1/zones/default/nodes/{node}/drain")
            states = {
                n["id"]: n["state"] for n in http.get("/v1/zones/default/state").json()["nodes"]
            }
        moved = client.fine_tuning.jobs.retrieve(job.id)
    assert states[node] == "drained"
    assert node not in [cell["node"] for cell in moved.market["plan"]["cells"]]
    assert moved.market["payment"] == job.market["payment"]


def test_a_users_data_go_and_the_books_stay(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        check_erasure(served)


def check_erasure(served: Served) -> None:
    client = served.client(served.key("leaver"))
    file = served.upload(served.users["leaver"])
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=file,
        suffix="mine",
        metadata={"who": "me"},
        extra_body={"market": {"bid": "50", "deadline": "+20m"}},
    )
    with served.http(served.operator) as http:
        early = http.delete("/v1/users/leaver/data")
        assert early.json()["error"]["code"] == "jobs_open"
        adapter = served.finish(job.id, "leaver")
        checkpoints = served.folder / "work" / "default" / job.id
        checkpoints.mkdir(parents=True)
        before = http.get("/v1/ledger/balances").json()
        erased = http.delete("/v1/users/leaver/data").json()
        assert (erased["files"], erased["jobs"], erased["keys"]) == (3, 1, 1)
        assert http.get("/v1/ledger/balances").json() == before
        rows = http.get("/v1/zones/default/decisions").json()["data"]
    assert not {file, adapter} & contents(served)
    assert not checkpoints.exists()
    assert job.id in [row["job"] for row in rows]
    with pytest.raises(openai.AuthenticationError):
        client.files.list()
    again = served.client(served.key("leaver"))
    kept = again.fine_tuning.jobs.retrieve(job.id)
    assert (kept.metadata, kept.fine_tuned_model) == (None, f"ft:tiny::{job.id[6:]}")


def test_roles_open_what_they_are_for(served: Served) -> None:
    with served.http(served.key("plain")) as http:
        assert http.get("/v1/users").status_code == 403
        assert (
            http.post("/v1/keys", json={"user": "operator", "role": "operator"}).status_code == 403
        )
    with served.http(served.operator) as http:
        assert http.get("/v1/users").status_code == 200
