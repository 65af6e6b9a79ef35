"""What the soak's harness itself withstands: rate limits, and Ray nodes that are slow to start."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from soak.environment import Environment
from support.ray_nodes import until_started

LIMITED = b'{"error": {"code": "rate_limit_exceeded"}}'
QUOTA = b'{"error": {"code": "quota_exceeded"}}'


class Limited(BaseHTTPRequestHandler):
    """Has a rate limit of which two requests are above, and a daily quota of bids."""

    num_refused = 0

    def do_GET(self) -> None:
        refused, type(self).num_refused = self.num_refused < 2, self.num_refused + 1
        self._answer(429, LIMITED, "0") if refused else self._answer(200, b"{}")

    def do_POST(self) -> None:
        self._answer(429, QUOTA, "86400")

    def _answer(self, status: int, body: bytes, retry_after: str | None = None) -> None:
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    """A client of a service with limits, without cluster and vendors."""
    with HTTPServer(("127.0.0.1", 0), Limited) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        vendor = cast(Any, SimpleNamespace(url=""))
        environment = Environment(tmp_path, cast(Any, None), vendor, "")
        environment.service.address = ("127.0.0.1", server.server_port)
        environment.service.use_key("sk-any")
        yield environment
        server.shutdown()
        thread.join()


def test_a_request_above_the_rate_limit_is_sent_again_and_one_above_a_quota_is_not(
    environment: Environment,
) -> None:
    assert environment.get("/v1/models").status == 200
    refused = environment.send("POST", "/v1/fine_tuning/jobs", b"{}")
    assert refused is not None
    assert (refused.status, refused.error_code) == (429, "quota_exceeded")


def test_a_ray_node_that_starts_too_slowly_is_started_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tries = iter([Exception("timed out during startup"), None])

    def start() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "started"

    assert until_started(start) == "started"
    assert "timed out during startup" in capsys.readouterr().err
    with pytest.raises(StopIteration):
        until_started(start)
