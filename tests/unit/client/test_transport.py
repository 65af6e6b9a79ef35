"""Requests against a small server whose answers are scripted."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auctune.client import Endpoint, ServiceError, UnreachableError
from auctune.client.transport import Transport, parse_events
from auctune.domain import InputError
from support.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    found = ScriptedServer()
    yield found
    found.stop()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def transport(server: ScriptedServer, slept: list[float]) -> Iterator[Transport]:
    with Transport(Endpoint(server.url, "sk-key"), slept.append) as found:
        yield found


def error(message: str, param: str | None = None, code: str = "invalid_value") -> dict[str, Any]:
    return {"error": {"message": message, "type": "t", "param": param, "code": code}}


def test_a_request_carries_the_key_and_its_answer_is_read(
    server: ScriptedServer, transport: Transport
) -> None:
    server.will_answer(200, {"a": 1})
    assert transport.get("/x", limit=5, after=None) == {"a": 1}
    ((method, path, headers, _),) = server.asked
    assert (method, path, headers["Authorization"]) == ("GET", "/x?limit=5", "Bearer sk-key")


def test_what_the_service_refuses_by_field_is_bad_input(
    server: ScriptedServer, transport: Transport
) -> None:
    server.will_answer(400, error("'x'; expected a time", "market.deadline"))
    with pytest.raises(InputError) as refused:
        transport.post("/x", {})
    assert str(refused.value) == "market.deadline: 'x'; expected a time"


def test_a_field_that_the_message_names_too_is_told_once(
    server: ScriptedServer, transport: Transport
) -> None:
    server.will_answer(400, error("market.deadline: 'x'; expected a time", "market.deadline"))
    server.will_answer(413, error("file: has 9 bytes; expected a smaller file", "file"))
    with pytest.raises(InputError) as refused:
        transport.post("/x", {})
    assert str(refused.value) == "market.deadline: 'x'; expected a time"
    with pytest.raises(ServiceError) as large:
        transport.post("/x", {})
    assert str(large.value) == "file: has 9 bytes; expected a smaller file"


def test_any_other_error_is_told_as_the_service_puts_it(
    server: ScriptedServer, transport: Transport
) -> None:
    server.will_answer(403, error("needs an operator's key", code="forbidden"))
    with pytest.raises(ServiceError, match=r"^needs an operator's key$") as refused:
        transport.get("/x")
    assert (refused.value.status, refused.value.code) == (403, "forbidden")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b'{"error": "no"}'])
def test_an_error_in_no_known_shape_is_told_by_its_status(
    server: ScriptedServer, transport: Transport, body: bytes
) -> None:
    server.will_answer(404, body)
    with pytest.raises(ServiceError, match="status 404"):
        transport.get("/x")


def test_an_answer_that_is_no_record_is_none_of_auctune(
    server: ScriptedServer, transport: Transport
) -> None:
    server.will_answer(200, b"<html>welcome</html>")
    with pytest.raises(ServiceError, match="is not an auctune service"):
        transport.get("/x")


def test_a_busy_service_is_asked_again_when_it_says_so(
    server: ScriptedServer, transport: Transport, slept: list[float]
) -> None:
    server.will_answer(429, error("too many"), **{"Retry-After": "2"})
    server.will_answer(503, error("starting"), **{"Retry-After": "soon"})
    server.will_answer(200, {"a": 1})
    assert transport.post("/x", {"b": 2}) == {"a": 1}
    assert slept == [2.0, 1.0]
    assert {body for *_, body in server.asked} == {b'{"b":2}'}


def test_a_service_that_stays_busy_is_given_up(
    server: ScriptedServer, transport: Transport, slept: list[float]
) -> None:
    server.will_answer(503, error("down"))
    with pytest.raises(ServiceError, match="down"):
        transport.get("/x")
    assert len(server.asked) == len(slept) + 1 == 4


def test_only_what_may_come_twice_is_sent_again_where_nobody_answers(slept: list[float]) -> None:
    server = ScriptedServer()
    server.stop()
    with Transport(Endpoint(server.url, "sk-key"), slept.append) as transport:
        with pytest.raises(UnreachableError, match="does not answer"):
            transport.post("/x", {})
        assert slept == []
        with pytest.raises(UnreachableError):
            transport.post("/x", {}, idempotency_key="once")
        assert len(slept) == 3


def test_an_upload_is_a_form_with_the_files_name(
    server: ScriptedServer, transport: Transport, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "a"}\n')
    server.will_answer(200, {"id": "file-a"})
    found = transport.upload("/v1/files", tmp_path / "rows.jsonl", {"purpose": "fine-tune"})
    assert found == {"id": "file-a"}
    ((_, _, headers, body),) = server.asked
    assert headers["Content-Type"].startswith("multipart/form-data")
    for part in (b'filename="rows.jsonl"', b'name="purpose"', b"fine-tune", b'{"text": "a"}\n'):
        assert part in body


def test_a_download_is_whole_or_not_there(
    server: ScriptedServer, transport: Transport, tmp_path: Path
) -> None:
    target = tmp_path / "adapter.zip"
    server.will_answer(404, error("there is no file", "id", "not_found"))
    server.will_answer(200, b"bytes" * 100_000)
    with pytest.raises(ServiceError, match="there is no file"):
        transport.download("/x", target)
    assert list(tmp_path.iterdir()) == []
    transport.download("/x", target)
    assert target.read_bytes() == b"bytes" * 100_000
    assert list(tmp_path.iterdir()) == [target]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the service answers others is looked at often."""
    monkeypatch.setattr("auctune.client.transport._POLL_SECONDS", 0.01)
    monkeypatch.setattr("auctune.client.transport._POLLS_PER_CHECK", 2)


@pytest.mark.usefixtures("impatient")
def test_a_post_is_waited_for_while_the_service_answers_others(server: ScriptedServer) -> None:
    server.will_answer(200, {"a": 1})
    checks = threading.Event()
    server.hold("/v1/quotes", checks)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        # Other requests have been answered.
        if sum(path == "/v1/zones" for _, path, *_ in server.asked) == 3:
            checks.set()

    with Transport(Endpoint(server.url, "sk-key"), on_wait=wait) as transport:
        assert transport.post("/v1/quotes", {}) == {"a": 1}
    # The request was sent once.
    assert [path for _, path, *_ in server.asked].count("/v1/quotes") == 1
    assert waits == sorted(waits)
    assert len(waits) >= 6


@pytest.mark.usefixtures("impatient")
def test_a_service_that_answers_nothing_while_a_post_waits_is_not_waited_for(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.client.transport._TIMEOUT", 0.05)
    server.will_answer(200, {"a": 1})
    over = threading.Event()
    server.hold("/v1/quotes", over)
    server.hold("/v1/zones", over)
    with (
        Transport(Endpoint(server.url, "sk-key")) as transport,
        pytest.raises(UnreachableError, match="timed out"),
    ):
        transport.post("/v1/quotes", {})
    over.set()


HOSTILE = "\x1b]0;owned\x07\x9b2J\u202eab\rc\td\ne"
SHOWN = "\ufffd]0;owned\ufffd\ufffd2J\ufffdab\ufffdc\td\ne"


def test_nothing_that_a_server_says_controls_a_terminal(
    server: ScriptedServer, transport: Transport
) -> None:
    server.will_answer(200, {HOSTILE: [HOSTILE, {"a": HOSTILE}], "b": 1})
    assert transport.get("/x") == {SHOWN: [SHOWN, {"a": SHOWN}], "b": 1}
    server.answers.clear()
    server.will_answer(404, error(HOSTILE))
    with pytest.raises(ServiceError) as refused:
        transport.get("/x")
    assert str(refused.value) == SHOWN
    lines = ["id: 1", f"event: {HOSTILE[:4]}", f"data: {json.dumps({'a': HOSTILE})}", ""]
    (event,) = parse_events(lines)
    assert (event.type, event.data) == (SHOWN[:4], {"a": SHOWN})
