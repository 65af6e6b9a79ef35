"""Streams, webhooks and explanations: what is told, to whom, and that it is true."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx2
import openai
import orjson
import pytest

from auctune.domain.money import STEP
from auctune.service import service
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.config.models import WebhooksConfig
from auctune.service.webhooks import dispatcher
from support.serving import Clock, Served, make_file, serving
from support.waits import WAIT_SECONDS


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "MAX_STREAMS", 3)
        with serving(tmp_path_factory.mktemp("market")) as opened:
            yield opened


def events(lines: Iterator[str]) -> Iterator[tuple[int, str, Any]]:
    """(id, event, data) of a stream of events."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            found[name] = value
        elif found:
            yield int(found["id"]), found["event"], orjson.loads(found["data"])
            found = {}


def stream(http: httpx2.Client, path: str, after: int | None = None) -> Any:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    return http.stream("GET", path, headers=headers, timeout=30)


def test_a_job_is_told_of_as_it_goes_on_until_it_is_over(served: Served) -> None:
    job = served.bid(served.client(), served.upload()).id
    path = f"/v1/fine_tuning/jobs/{job}/events/stream"
    with served.http() as http:
        with stream(http, path) as answer:
            told = events(answer.iter_lines())
            first = next(told)
            assert first[1] == first[2]["data"]["type"] == "job.decided"
            served.train(job, 40)
            seq, kind, data = next(told)
            assert (kind, data["data"]["rows"]) == ("job.trained", 40)
            served.finish(job, "ada")
            assert [event[1] for event in told] == ["job.finished"]
        with stream(http, path, after=seq) as answer:
            last = list(events(answer.iter_lines()))
            assert [event[1] for event in last] == ["job.finished"]
        # Who was cut off behind the last event does not wait for another one.
        with stream(http, path, after=last[-1][0]) as answer:
            assert list(events(answer.iter_lines())) == []
        listed = http.get(f"/v1/fine_tuning/jobs/{job}/events").json()["data"]
    assert listed[-1] == first[2]


def test_a_stream_ends_with_its_key_and_there_are_only_so_many(served: Served) -> None:
    secret = served.key("watcher")
    job = served.bid(served.client(secret), served.upload(secret)).id
    path = f"/v1/fine_tuning/jobs/{job}/events/stream"
    with served.http(secret) as http:
        streams = [stream(http, path) for _ in range(3)]
        told = [events(one.__enter__().iter_lines()) for one in streams]
        for one in told:
            next(one)
        refused = http.get(path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "limit_reached")
        key = next(k.id for k in served.service.accounts.all_keys() if k.user == "watcher")
        served.run(lambda: served.service.accounts.revoke_key(key))
        served.train(job, 8)
        for one, opened in zip(told, streams, strict=True):
            assert len(list(one)) <= 1
            opened.__exit__(None, None, None)


def test_an_operator_hears_all_of_a_zone_and_goes_on_where_it_was(served: Served) -> None:
    path = "/v1/zones/default/events/stream"
    file = served.upload()
    with served.http(served.operator) as http:
        with stream(http, path) as answer:
            told = events(answer.iter_lines())
            job = served.bid(served.client(), file).id
            seen = [next(event for event in told if event[1] == "job.decided")]
        served.client().fine_tuning.jobs.cancel(job)
        with stream(http, path, after=seen[0][0]) as answer:
            told = events(answer.iter_lines())
            types = [next(told)[2]["type"] for _ in range(2)]
    assert seen[0][2]["body"]["owner"] == "ada"
    assert types == ["job.released", "job.cancelled"]
    with served.http() as http:
        assert http.get(path).status_code == 403


def explanation(served: Served, job: str, key: str | None = None) -> Any:
    with served.http(key) as http:
        answer = http.get(f"/v1/fine_tuning/jobs/{job}/explanation")
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_a_decision_is_explained_by_the_market_as_it_was(served: Served) -> None:
    client, file = served.client(), served.upload()
    first = served.bid(client, file)
    # What comes later moves prices, and nothing of the explanation.
    told = explanation(served, first.id)
    for _ in range(5):
        served.bid(client, file)
    served.clock.pass_slots(2)
    served.service.explanations._cache.clear()
    assert explanation(served, first.id) == told
    chosen = told["chosen"]
    assert told["payment"] == chosen["price"] == first.market["payment"]
    parts = (chosen[part] for part in ("vendor_price", "operating_cost", "compute", "memory"))
    assert sum(parts) == pytest.approx(chosen["cost"])
    cells = first.market["plan"]["cells"]
    assert [(c["slot"], c["node"]) for c in chosen["cells"]] == [
        (c["slot"], c["node"]) for c in cells
    ]


def test_a_rejected_bid_is_explained_by_the_plan_it_could_not_pay(served: Served) -> None:
    job = served.bid(served.client(), served.upload(), bid="0.0001")
    told = explanation(served, job.id)
    assert told["decision"] == "rejected"
    assert told["min_bid"] == job.market["min_bid"]
    assert Decimal(told["min_bid"]) == Decimal(told["chosen"]["price"]) + STEP


def test_one_explanation_of_a_user_waits_at_a_time(served: Served) -> None:
    client, file = served.client(), served.upload()
    jobs = [served.bid(client, file).id for _ in range(4)]
    explanations = served.service.explanations

    async def ask() -> list[Any]:
        asked = zip(jobs, ("ada", "ada", "ada", "bob"), strict=True)
        return await asyncio.gather(
            *(explanations.get(job, who) for job, who in asked), return_exceptions=True
        )

    own, second, too_many, other = served.run(ask)
    assert isinstance(too_many, LimitReachedError)
    assert too_many.retry_after is not None
    explained = [one.decided.job for one in (own, second, other)]
    assert explained == [jobs[0], jobs[1], jobs[3]]
    assert explanation(served, jobs[2])["job"] == jobs[2]


def test_unit_prices_are_an_operators(served: Served) -> None:
    job = served.bid(served.client(), served.upload()).id
    own = explanation(served, job)["chosen"]["cells"]
    all_of_it = explanation(served, job, served.operator)["chosen"]["cells"]
    assert all(cell["compute_price"] is None for cell in own)
    assert all(cell["compute_price"] is not None for cell in all_of_it)


class Listener:
    """An address of a user's: it refuses its first posts, and keeps the rest."""

    def __init__(self, refusals: int) -> None:
        self.heard: SimpleQueue[tuple[dict[str, str], bytes]] = SimpleQueue()
        self.refused: SimpleQueue[tuple[dict[str, str], bytes]] = SimpleQueue()
        left = [refusals]
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_refused = left[0] > 0
                left[0] -= 1
                place = listener.refused if is_refused else listener.heard
                place.put((dict(self.headers), body))
                self.send_response(503 if is_refused else 204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook?a=b"

    @contextmanager
    def open(self) -> Iterator["Listener"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that was refused is made again at once."""
    monkeypatch.setattr(dispatcher, "INITIAL_BACKOFF_SECONDS", 0.01)


def hooked_file(*, private_addresses: bool = True) -> Any:
    wanted = WebhooksConfig(private_addresses=private_addresses)
    return make_file().model_copy(update={"webhooks": wanted})


def test_the_official_client_believes_a_webhook_and_only_a_genuine_one(tmp_path: Path) -> None:
    clock = Clock()
    # The client refuses what is not of these minutes.
    clock.time = time.time()
    with serving(tmp_path, hooked_file(), clock) as served, Listener(refusals=2).open() as listener:
        client = served.client()
        with served.http() as http:
            hook = http.post("/v1/webhooks", json={"url": listener.url}).json()
        with served.http(served.key("bob")) as http:
            assert http.get("/v1/webhooks").json()["data"] == []
        job = served.bid(client, served.upload()).id
        served.finish(job, "ada")
        headers, body = listener.heard.get(timeout=WAIT_SECONDS)
        tried = [listener.refused.get(timeout=WAIT_SECONDS) for _ in range(2)]
        assert {one["webhook-id"] for one, _ in tried} == {headers["webhook-id"]}

        told = client.webhooks.unwrap(body, headers, secret=hook["secret"])
        assert told.type == "fine_tuning.job.succeeded"
        assert told.data.id == job
        with pytest.raises(openai.InvalidWebhookSignatureError):
            client.webhooks.unwrap(
                body.replace(b"succeeded", b"cancelled"), headers, secret=hook["secret"]
            )
        assert b"ada" not in body


@pytest.mark.slow
def test_what_was_not_heard_is_told_after_a_restart_and_once_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Listener(refusals=1).open() as listener:
        monkeypatch.setattr(dispatcher, "INITIAL_BACKOFF_SECONDS", 1000.0)
        with serving(tmp_path, hooked_file()) as served:
            with served.http() as http:
                http.post("/v1/webhooks", json={"url": listener.url})
            job = served.bid(served.client(), served.upload()).id
            served.client().fine_tuning.jobs.cancel(job)
            first, _ = listener.refused.get(timeout=WAIT_SECONDS)
            clock = served.clock
        monkeypatch.setattr(dispatcher, "INITIAL_BACKOFF_SECONDS", 0.01)
        with serving(tmp_path, hooked_file(), clock) as served:
            again, body = listener.heard.get(timeout=WAIT_SECONDS)
            assert again["webhook-id"] == first["webhook-id"]
            assert orjson.loads(body)["type"] == "fine_tuning.job.cancelled"
            other = served.bid(served.client(), served.upload()).id
            served.client().fine_tuning.jobs.cancel(other)
        with serving(tmp_path, hooked_file(), clock) as served:
            assert len(served.service.webhooks.registry)
            third = served.bid(served.client(), served.upload()).id
            served.client().fine_tuning.jobs.cancel(third)
            heard = []
            while third not in heard:
                heard.append(
                    orjson.loads(listener.heard.get(timeout=WAIT_SECONDS)[1])["data"]["id"]
                )
    assert heard[-1] == third
    assert job not in heard


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "https://",
        "https://a:b@c.example/",
        "http://a.example/x\r\ny: z",
        "nonsense",
        "https://169.254.169.254/latest",
        "https://[::ffff:10.0.0.1]/",
        "https://[fe80::1%25eth0]/",
    ],
)
def test_what_is_no_address_is_refused(served: Served, url: str) -> None:
    with served.http() as http:
        answer = http.post("/v1/webhooks", json={"url": url})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "url")


def test_an_address_within_is_not_told_unless_the_operator_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_ATTEMPTS", 1)
    file = hooked_file(private_addresses=False)
    with serving(tmp_path, file) as served, Listener(refusals=0).open() as listener:
        with served.http() as http:
            refused = http.post("/v1/webhooks", json={"url": listener.url})
            assert refused.status_code == 400
            assert "private_addresses in [webhooks]" in refused.json()["error"]["message"]
            # Where a name leads is known when something is sent there.
            named = listener.url.replace("127.0.0.1", "localhost")
            assert http.post("/v1/webhooks", json={"url": named}).status_code == 200
        job = served.bid(served.client(), served.upload()).id
        served.client().fine_tuning.jobs.cancel(job)
        # It has been given up once this is on record.
        seq = served.service.log.last_seq()
        cursor = served.service.webhooks._cursors["default"]
        for _ in range(2000):
            served.client().fine_tuning.jobs.retrieve(job)
            if cursor.stored >= seq:
                break
        assert cursor.stored >= seq
        assert listener.heard.empty()
