"""Connections: heads without an end, slow clients, and more clients than there is room for."""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from auctune.service import app, service
from auctune.service.http import requests
from auctune.service.http.connections import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED,
    ConnectionLimits,
    LimitedServer,
    OpenConnections,
)
from support.page_visitor import PageVisitor
from support.serving import ROWS, Served, make_file, serving
from support.waits import poll

pytest_plugins = ["support.served_market"]

MUCH = 16 * 1024 * 1024
PIECE = b"a" * 4096
WAIT_BRIEFLY = httpx2.Timeout(60.0, read=0.5)


def send(served: Served, pieces: Iterable[bytes]) -> tuple[int, bytes]:
    place = urlsplit(served.url)
    sent = 0
    with socket.create_connection((place.hostname, place.port), timeout=60) as line:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                line.sendall(piece)
                sent += len(piece)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while more := line.recv(65_536):
                answer += more
    return sent, answer


def endless(beginning: bytes) -> Iterator[bytes]:
    yield beginning
    for _ in range(MUCH // len(PIECE)):
        yield PIECE


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /health HTTP/1.1\r\nHost: a\r\nX-Endless: ",
        b"GET /health?",
        b"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\na\r\n0\r\nX-Endless: ",
        b"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    ],
)
def test_what_has_no_end_is_cut_off(served: Served, beginning: bytes) -> None:
    sent, answer = send(served, endless(beginning))
    # The system's own buffers take in some megabytes.
    assert sent < MUCH
    assert not answer.startswith(b"HTTP/1.1 200")


def test_heads_and_bodies_of_any_reasonable_length_pass(served: Served) -> None:
    with served.http() as http:
        long = {"X-Long": "a" * (MAX_HEADER_BYTES // 2)}
        assert http.get("/v1/files", headers=long).status_code == 200

        def pieces() -> Iterator[bytes]:
            yield b'{"model": "'
            for _ in range(40_000):
                yield b"ab"
            yield b'"}'

        headers = {"Content-Type": "application/json"}
        answer = http.post("/v1/quotes", content=pieces(), headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "model"


def test_a_body_in_chunks_of_a_byte_is_passed_on_in_few(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = []
    take = HttpToolsProtocol.on_body

    def counted(self: HttpToolsProtocol, body: bytes) -> None:
        passed.append(len(body))
        take(self, body)

    monkeypatch.setattr(HttpToolsProtocol, "on_body", counted)
    head = (
        f"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {served.users['ada']}\r\n"
        "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    body = b'{"model": "' + b"a" * 100_000 + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    _, answer = send(served, [head, chunks, b"0\r\n\r\n"])
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"param":"model"' in answer
    assert sum(passed) == len(body)
    assert len(passed) < len(body) / 100


def test_some_requests_may_be_sent_before_an_answer_but_not_any_number(served: Served) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: a\r\n"
    _, some = send(
        served, [(request + b"\r\n") * MAX_PIPELINED + request + b"Connection: close\r\n\r\n"]
    )
    assert some.count(b"HTTP/1.1 200 ") == MAX_PIPELINED + 1
    _, many = send(served, [(request + b"\r\n") * 5_000])
    assert many.count(b"HTTP/1.1 200 ") < 100
    assert b"HTTP/1.1 400 " in many


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_clients_that_close_with_answers_unread_leave_no_traceback(
    new_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[BaseException] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(20):
                await asyncio.sleep(0)
                await send({"type": "http.response.body", "body": PIECE * 16, "more_body": True})
            assert (await receive())["type"] in ("http.request", "http.disconnect")
            await send({"type": "http.response.body", "body": b""})
        except BaseException as error:
            errors.append(error)
            raise

    def leave(port: int, num_requests: int, *, is_reset: bool) -> None:
        line = socket.create_connection(("127.0.0.1", port))
        line.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * num_requests)
        if is_reset:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.close()

    async def run() -> None:
        config = uvicorn.Config(answer, lifespan="off", log_level="error", log_config=None)
        server = LimitedServer(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve([listening]))
            port = listening.getsockname()[1]
            for number in range(60):
                how = {"is_reset": number % 3 > 0}
                await asyncio.to_thread(leave, port, MAX_PIPELINED if number % 2 else 1, **how)
            while server.server_state.connections or server.server_state.tasks:
                await asyncio.sleep(0.01)
            server.should_exit = True
            await serving

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
    assert errors == []
    assert caplog.records == []


def test_streams_are_ended_before_a_graceful_shutdown_cancels_them() -> None:
    async def run() -> None:
        ended, started = asyncio.Event(), asyncio.Event()

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            started.set()
            await ended.wait()
            await send({"type": "http.response.body", "body": b"an error"})

        config = uvicorn.Config(answer, lifespan="off", log_config=None)
        config.timeout_graceful_shutdown = 1
        server = LimitedServer(config)
        server.end_streams = ended.set
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve([listening]))
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await started.wait()
            server.should_exit = True
            assert (await reader.read()).endswith(b"an error\r\n0\r\n\r\n")
            await serving
            writer.close()

    asyncio.run(run())


def test_many_ranges_of_a_file_are_answered_with_the_whole(served: Served) -> None:
    file = served.upload()
    with served.http(is_checked=False) as http:
        path = f"/v1/files/{file}/content"
        few = http.get(path, headers={"Range": "bytes=0-1,5-6"})
        assert (few.status_code, few.headers["content-type"][:20]) == (206, "multipart/byteranges")
        many = ",".join(f"{n}-{n}" for n in range(0, 10_000, 2))
        found = http.get(path, headers={"Range": f"bytes={many}"})
        assert (found.status_code, found.text) == (200, ROWS)


def test_the_openapi_document_is_built_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    describe = requests.component_schemas

    def counted() -> dict[str, Any]:
        built.append(1)
        return describe()

    monkeypatch.setattr(app, "component_schemas", counted)
    with served.http() as http:
        documents = [http.get("/openapi.json").json() for _ in range(3)]
    assert "JobRequest" in documents[0]["components"]["schemas"]
    assert documents[0] == documents[1] == documents[2]
    assert len(built) <= 1


@contextlib.contextmanager
def lines(served: Served, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, on each of which this was said."""
    place = urlsplit(served.url)
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            line = socket.create_connection((place.hostname, place.port), timeout=60)
            opened.append(stack.enter_context(line))
            line.sendall(said)
        yield opened


def heard(line: socket.socket) -> bytes:
    told = b""
    with contextlib.suppress(ConnectionError):
        while more := line.recv(65_536):
            told += more
    return told


SLOW = ConnectionLimits(head_seconds=0.2, body_seconds=0.3, idle_seconds=0.5)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A market whose server waits for nobody."""
    with serving(tmp_path_factory.mktemp("impatient"), limits=SLOW) as opened:
        yield opened


@pytest.mark.slow
def test_clients_that_say_nothing_or_half_of_something_are_left(impatient: Served) -> None:
    key = impatient.key("slow")
    head = f"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n".encode()
    form = "Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
    upload = head.replace(b"quotes", b"files") + b"Content-Length: 900\r\n" + form.encode()
    for said, status in (
        (b"", b""),
        (b"GET /health HT", b"HTTP/1.1 408 "),
        (b"GET /health HTTP/1.1\r\nHost: a\r\n", b"HTTP/1.1 408 "),
        (head + b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 408 "),
        (upload, b"HTTP/1.1 408 "),
        (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" + b"GET /hea", b"HTTP/1.1 200 "),
    ):
        with lines(impatient, 1, said) as (line,):
            assert heard(line).startswith(status), said


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_left(impatient: Served) -> None:
    key = impatient.key("deaf")
    rows = ROWS * 8000
    file = impatient.client(key).files.create(file=("a.jsonl", rows.encode()), purpose="fine-tune")
    head = f"GET /v1/files/{file.id}/content HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n"
    with lines(impatient, 1, head.encode() + b"\r\n") as (line,):
        # Each of these is left when the server looks, once a second.
        for _ in range(4):
            with lines(impatient, 1) as (silent,):
                assert heard(silent) == b""
        assert len(heard(line)) < len(rows)


class Highest(Counter[str]):
    """Counts, and the highest that there was."""

    highest = 0

    def __setitem__(self, name: str, count: int) -> None:
        self.highest = max(self.highest, count)
        super().__setitem__(name, count)


def test_what_clients_of_a_user_have_not_read_is_bounded(tmp_path: Path) -> None:
    with serving(tmp_path) as served, contextlib.ExitStack() as stack:
        gate, place = served.service.gate, urlsplit(served.url)
        key, file = served.key("deaf"), served.upload(served.key("deaf"))
        metadata = {str(number): "a" * 512 for number in range(16)}
        with served.http(key) as http:
            for _ in range(60):
                bid = {"model": "tiny", "training_file": file, "metadata": metadata}
                answer = http.post(
                    "/v1/fine_tuning/jobs",
                    json={**bid, "market": {"bid": "1", "deadline": "+20m"}},
                )
                assert answer.is_success, answer.text
            size = len(http.get("/v1/fine_tuning/jobs?limit=100").content)
        gate.max_unsent, gate._unsent = size // 2, Highest()
        said = "GET /v1/fine_tuning/jobs?limit=100 HTTP/1.1\r\nHost: a\r\n"
        said += f"Authorization: Bearer {key}\r\n"
        opened = []
        for _ in range(20):
            line = stack.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(60)
            line.connect((place.hostname, place.port))
            # More than the socket takes.
            line.sendall(f"{said}\r\n".encode() * 12 + f"{said}Connection: close\r\n\r\n".encode())
            opened.append(line)
        with served.http(key) as http, served.http(served.key("other")) as other:
            responses = []

            def is_refused() -> bool:
                # Sockets take in some of what is sent: the next request may be served again.
                responses.append(http.get("/v1/files"))
                return responses[-1].status_code == 429

            poll(is_refused)
            refused = responses[-1]
            assert refused.json()["error"]["code"] == "limit_reached"
            assert "your clients have not read" in refused.json()["error"]["message"]
            assert int(refused.headers["retry-after"]) >= 1
            # What reads nothing goes on, and others do.
            assert served.bid(served.client(key), file).id
            assert other.get("/v1/files").status_code == 200
            with ThreadPoolExecutor(len(opened)) as pool:
                told = [*pool.map(heard, opened)]
            assert any(b"your clients have not read" in one for one in told)
            poll(lambda: http.get("/v1/files").status_code == 200)
        # One is read while another one is about to be sent.
        assert gate._unsent.highest < 5 * size


@pytest.mark.slow
def test_a_long_wait_for_an_answer_is_not_the_clients(impatient: Served) -> None:
    key = impatient.key("patient")
    file = impatient.upload(key)
    job = impatient.bid(impatient.client(key), file).id
    head = f"GET /v1/fine_tuning/jobs/{job}/events/stream HTTP/1.1\r\nHost: a\r\n"
    with lines(impatient, 1, f"{head}Authorization: Bearer {key}\r\n\r\n".encode()) as (line,):
        told = b""
        while b"the stream is open" not in told:
            told += line.recv(65_536)
        # Others are left meanwhile, so that the server has looked for slow clients twice.
        for _ in range(2):
            with lines(impatient, 1) as (silent,):
                assert heard(silent) == b""
        impatient.client(key).fine_tuning.jobs.cancel(job)
        assert b"cancelled" in heard(line)


def is_served(served: Served, key: str) -> bool:
    with served.http(key) as http, contextlib.suppress(httpx2.TransportError):
        return http.get("/v1/zones").status_code == 200
    return False


def test_idle_connections_beyond_the_limit_make_room_for_those_that_ask(tmp_path: Path) -> None:
    limits = ConnectionLimits(connections=20)
    with serving(tmp_path, limits=limits) as served:
        key = served.key("ada")
        half = f"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n".encode()
        with (
            lines(served, 15, half + b"Content-Length: 9\r\n\r\n{"),
            lines(served, 60, b"GET /health HTTP/1.1\r\nHost: a\r\n") as idle,
            served.http(key) as http,
        ):
            assert http.get("/v1/zones").status_code == 200
            assert heard(idle[0]) == b""
        # Unfinished bodies of strangers on all connections shut nobody out either.
        form = b"POST /page/sign-in HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n"
        form += b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\nk"
        with lines(served, 60, form), served.http(key) as http:
            for _ in range(3):
                assert http.get("/v1/zones", headers={"Connection": "close"}).status_code == 200
        # Nor do answers that nobody reads, once they are written.
        with lines(served, 60, b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * MAX_PIPELINED):
            for _ in range(3):
                poll(lambda: is_served(served, key))


SENDER = "127.0.0.1"


def flood(served: Served, sender: str, share: float = 0.9) -> None:
    """Note that a sender sends too much without a key."""
    late = served.service.late
    while late.delay(sender) < share * late._max_delay:
        pass


def is_late(http: httpx2.Client, path: str, method: str = "GET", **options: Any) -> bool:
    """Return whether a response does not come at once."""
    try:
        http.request(method, path, timeout=WAIT_BRIEFLY, **options)
    except httpx2.ReadTimeout:
        return True
    return False


def test_an_address_that_floods_without_a_key_waits_and_keys_of_it_do_not(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served:
        key = served.key("ada")
        ada = PageVisitor(served, key)
        with httpx2.Client(base_url=served.url) as stranger:
            flood(served, SENDER)
            for path in ("/page/sign-in", "/v1/zones", "/page/", "/nothing"):
                assert is_late(stranger, path)
            assert not is_late(stranger, "/health")
            flood(served, f"health {SENDER}")
            assert is_late(stranger, "/ready")
        with served.http(key) as http:
            assert http.get("/v1/zones").status_code == 200
        for mine in ("/page/files", "/page/static/page.css"):
            assert ada.get(mine).status_code == 200
        assert PageVisitor(served, key).get("/page/files").status_code == 200


def test_what_a_key_sends_beyond_the_gate_or_its_rate_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A burst of 4.
    monkeypatch.setattr(service, "BURST_SECONDS", 4 / 1e-3)
    with serving(tmp_path, make_file(requests_per_second=1e-3)) as served:
        secret = served.key("ada")
        ada = PageVisitor(served, secret)
        (key,) = [one.id for one in served.service.accounts.all_keys() if one.user == "ada"]
        flood(served, f"key {key}")
        with served.http(secret) as http:
            assert http.get("/v1/zones").status_code == 200
            assert is_late(ada.http, "/page/static/page.css")
            assert is_late(ada.http, "/page/sign-in", "POST", data={"key": secret})
            assert is_late(http, "/v1/zones")


def test_the_body_of_a_request_whose_response_is_late_is_not_read(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served:
        flood(served, SENDER)
        head = f"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: {MUCH}\r\n\r\n".encode()
        with lines(served, 1, head) as (line,):
            line.settimeout(0.5)
            with pytest.raises(TimeoutError):
                line.sendall(bytes(MUCH))


def test_late_responses_end_when_their_clients_leave_and_when_the_service_stops(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served:
        flood(served, SENDER)
        line = b"GET /page/sign-in HTTP/1.1\r\nHost: a\r\n\r\n"
        tasks = served.app.state.server.server_state.tasks
        with lines(served, 3, line):
            poll(lambda: len(tasks) == 3)
        poll(lambda: not tasks)
        with lines(served, 3, line) as late:
            poll(lambda: len(tasks) == 3)
            served.app.state.stop()
            for one in late:
                assert heard(one).startswith(b"HTTP/1.1 200 ")


def test_connections_of_an_address_that_floods_make_room_first(tmp_path: Path) -> None:
    with serving(tmp_path, limits=ConnectionLimits(connections=10)) as served:
        key = served.key("ada")
        flood(served, SENDER)
        with lines(served, 60, b"GET /page/sign-in HTTP/1.1\r\nHost: a\r\n\r\n") as late:
            for _ in range(3):
                poll(lambda: is_served(served, key))
            assert heard(late[0]) == b""


def test_an_address_that_floods_however_it_leaves_gets_no_connections(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served:
        buckets = served.service.late._buckets
        frozen = buckets._now()
        buckets._now = lambda: frozen
        with served.http(served.key("ada")) as http:
            assert http.get("/v1/zones").status_code == 200
            flood(served, SENDER, share=1.0)
            with lines(served, 1, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n") as (line,):
                assert heard(line) == b""
            # Open ones are served.
            assert http.get("/v1/zones").status_code == 200


def test_a_head_of_many_headers_is_refused(served: Served) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * MAX_HEADERS + b"\r\n"
    with lines(served, 1, head) as (line,):
        assert heard(line).startswith(b"HTTP/1.1 400 ")


def test_the_newest_connection_is_refused_where_all_others_are_served() -> None:
    class Busy:
        is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True

    opened = OpenConnections(ConnectionLimits(connections=2))
    connections: list[Any] = [Busy() for _ in range(3)]
    for one in connections:
        opened.connections.add(one)
        opened.make_room(one)
    assert [one.is_aborted for one in connections] == [False, False, True]


def test_nothing_of_a_body_is_read_for_somebody_without_a_key(served: Served) -> None:
    for path in (b"/v1/quotes", b"/v1/fine_tuning/jobs", b"/v1/files", b"/v1/nothing"):
        said = b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 16384\r\n\r\n{"
        with lines(served, 1, said) as (line,):
            answer = heard(line)
            assert answer.startswith(b"HTTP/1.1 401 ")
            assert b"connection: close" in answer


def test_after_an_answer_only_so_much_of_a_body_is_read(served: Served) -> None:
    beginning = b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n"
    sent, answer = send(served, endless(beginning))
    assert sent < MUCH
    assert not answer.startswith(b"HTTP/1.1 200")


def test_a_key_has_so_many_requests_at_once_and_others_have_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_REQUESTS", 3)
    with serving(tmp_path) as served:
        file = served.upload(served.key("ada"))
        jobs = [served.bid(served.client(), file).id for _ in range(3)]
        with contextlib.ExitStack() as stack:
            for job in jobs:
                http = stack.enter_context(served.http())
                place = f"/v1/fine_tuning/jobs/{job}/events/stream"
                told = stack.enter_context(http.stream("GET", place))
                assert told.status_code == 200
            with served.http() as http:
                refused = http.get("/v1/zones")
            with served.http(served.key("bob")) as http:
                assert http.get("/v1/zones").status_code == 200
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "limit_reached"


@pytest.mark.slow
def test_requests_at_once_on_the_page_count_as_those_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_REQUESTS", 3)
    with serving(tmp_path) as served:
        ada = PageVisitor(served, served.key("ada"))
        cookie = ada.http.cookies["auctune_session"]
        form = b"POST /page/sign-out HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n"
        form += f"Cookie: auctune_session={cookie}\r\nContent-Length: 99\r\n\r\nk".encode()
        with lines(served, 3, form), served.http() as http:
            # Until the server has come to all three.
            answers = (http.get("/v1/zones").status_code for _ in range(500))
            assert next((status for status in answers if status != 200), None) == 429
            assert ada.http.get("/page").status_code == 429
