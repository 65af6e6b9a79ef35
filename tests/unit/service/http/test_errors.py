"""What a request that fails leaves in the log: nothing of a client that went, no names of users."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from fastapi import FastAPI, Request
from structlog.testing import capture_logs

from auctune.domain import InputError
from auctune.service.http.errors import HANDLERS
from auctune.service.http.requests import read_body, read_request
from auctune.service.jobs.request import JobRequest


def made_app() -> FastAPI:
    app = FastAPI(exception_handlers=HANDLERS)

    @app.post("/read/{name}")
    async def read(name: str, request: Request) -> int:
        return sum([len(chunk) async for chunk in request.stream()])

    @app.post("/fail/{name}")
    async def fail(name: str) -> None:
        raise RuntimeError("a mistake of ours")

    return app


def asked(path: str, *messages: dict[str, Any]) -> tuple[list[int], list[Any]]:
    """The answer's status and what was logged, of a client that says this and goes."""
    told, sent = list(messages), list[int]()

    async def receive() -> dict[str, Any]:
        return told.pop(0) if told else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [],
        "server": ("here", 80),
        "client": ("there", 1),
        "http_version": "1.1",
    }
    # The server is told of mistakes too.
    with capture_logs() as logs, suppress(RuntimeError):
        asyncio.run(made_app()(scope, receive, send))
    return sent, logs


def test_a_client_that_hangs_up_in_mid_body_is_no_mistake_of_ours() -> None:
    part = {"type": "http.request", "body": b"half of it", "more_body": True}
    sent, logs = asked("/read/mine", part)
    assert sent == [400]
    assert logs == []


def test_a_mistake_is_logged_with_the_pattern_of_its_path_alone() -> None:
    body = {"type": "http.request", "body": b"", "more_body": False}
    sent, logs = asked("/fail/secret-name", body)
    assert sent == [500]
    (line,) = logs
    assert line["route"] == "/fail/{name}"
    assert "secret-name" not in str({**line, "exc_info": None})


@pytest.mark.parametrize("read", [read_request, lambda raw: read_body(raw, JobRequest)])
def test_a_body_of_very_many_lists_is_refused_before_it_is_parsed(read: Any) -> None:
    many = b'{"integrations": [' + b",".join([b"[]"] * 80_000)
    # Parsed, it would be no JSON: the list has no end.
    with pytest.raises(InputError, match="body: has 80002 lists and objects; expected a request"):
        read(many)
    with pytest.raises(InputError, match="body: is not valid JSON"):
        read(many[:1000])
