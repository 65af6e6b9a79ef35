"""The port: really free, really taken, and by whom."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from auctune.client.address import URL_FILE
from auctune.run.lock import NODES_LOCK, hold
from auctune.service.doctor import State
from auctune.service.doctor.port import look
from support.examined import found, installation


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which this process listens, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


class Healthy(BaseHTTPRequestHandler):
    """Answers as the route of the service's health does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "ok"}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def healthy() -> Iterator[int]:
    """A port at which something answers as a service does."""
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_port_that_is_free_or_any_is_right(tmp_path: Path, taken: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free = listening.getsockname()[1]
    for port in (0, free):
        (finding,) = found(look, installation(tmp_path, f"port = {port}\n"))
        assert finding.state == State.OK


def test_a_taken_port_is_wrong_and_names_the_process(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.service.doctor.port._ANSWER_SECONDS", 0.05)
    (finding,) = found(look, installation(tmp_path, f"port = {taken}\n"))
    assert finding.state == State.WRONG
    assert f"process {os.getpid()}, " in finding.said
    assert "auctune serve --port" in finding.mend


def test_a_port_of_a_service_that_is_opening_is_a_warning(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.service.doctor.port._ANSWER_SECONDS", 0.05)
    (tmp_path / "data").mkdir()
    with hold(tmp_path / "data" / NODES_LOCK, "data"):
        (finding,) = found(look, installation(tmp_path, f"port = {taken}\n"))
    assert (finding.state, "which is opening" in finding.said) == (State.WARN, True)


def test_an_address_of_another_machine_is_wrong(tmp_path: Path) -> None:
    (finding,) = found(look, installation(tmp_path, 'host = "192.0.2.1"\nport = 9\n'))
    assert finding.state == State.WRONG
    assert "Cannot assign requested address; no process listens there" in finding.said


def test_a_port_of_the_service_of_this_folder_is_right(tmp_path: Path, healthy: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / URL_FILE).write_text(f"http://127.0.0.1:{healthy}\n")
    (finding,) = found(look, installation(tmp_path, f"port = {healthy}\n"))
    assert finding.state == State.OK
    assert f"at http://127.0.0.1:{healthy}" in finding.said


def test_a_port_of_a_service_of_another_folder_is_wrong(tmp_path: Path, healthy: int) -> None:
    (finding,) = found(look, installation(tmp_path, f"port = {healthy}\n"))
    assert finding.state == State.WRONG
    assert "an auctune of another data folder" in finding.said


def test_a_noted_service_that_is_gone_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free = listening.getsockname()[1]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / URL_FILE).write_text(f"http://127.0.0.1:{free}\n")
    (finding,) = found(look, installation(tmp_path, f"port = {free}\n"))
    assert (finding.state, "that is gone" in finding.said) == (State.WARN, True)
