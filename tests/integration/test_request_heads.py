"""Requests whose heads, or what comes after their bodies, have no end: they are not held."""

import contextlib
import socket
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import pytest

from auctune.service.api.request_head import HEAD_BYTES
from support.serving import Served

pytest_plugins = ["support.served_market"]

MUCH = 16 * 1024 * 1024
PIECE = b"a" * 4096


def send(served: Served, pieces: Iterable[bytes]) -> tuple[int, bytes]:
    """How many bytes were taken, and what came back."""
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
        long = {"X-Long": "a" * (HEAD_BYTES // 2)}
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
