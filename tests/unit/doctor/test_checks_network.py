"""The port, free or taken and by whom; vendors; Ray clusters."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from auctune.client.endpoint import URL_FILE
from auctune.doctor import Severity
from auctune.doctor.checks_network import check_port, check_ray, check_vendors, cluster_finding
from auctune.engine.file_lock import NODES_LOCK, lock_file
from auctune.engine.runtime.ray.local_cluster import LocalCluster
from support.installations import make_installation, only, severities
from support.network import has_ipv6


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which this process listens, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


class Healthy(BaseHTTPRequestHandler):
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
        (finding,) = check_port(make_installation(tmp_path, f"port = {port}\n"))
        assert finding.severity == Severity.OK


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_port_of_ipv6_is_written_as_in_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.doctor.checks_network._HEALTH_SECONDS", 0.05)
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
        port = listening.getsockname()[1]
        at = make_installation(tmp_path, f'host = "::1"\nport = {port}\n')
        (taken,) = check_port(at)
    (free,) = check_port(at)
    assert (taken.severity, free.severity) == (Severity.ERROR, Severity.OK)
    assert taken.message.startswith(f"cannot listen at [::1]:{port} (")
    assert f"process {os.getpid()}, " in taken.message
    assert free.message == f"[::1]:{port} is free"


def test_a_taken_port_is_wrong_and_names_the_process(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.doctor.checks_network._HEALTH_SECONDS", 0.05)
    (finding,) = check_port(make_installation(tmp_path, f"port = {taken}\n"))
    assert finding.severity == Severity.ERROR
    assert f"process {os.getpid()}, " in finding.message
    assert "auctune serve --port" in finding.fix


def test_a_port_of_a_service_that_is_starting_is_a_warning(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.doctor.checks_network._HEALTH_SECONDS", 0.05)
    (tmp_path / "data").mkdir()
    with lock_file(tmp_path / "data" / NODES_LOCK, "data"):
        (finding,) = check_port(make_installation(tmp_path, f"port = {taken}\n"))
    assert (finding.severity, "which is starting" in finding.message) == (Severity.WARN, True)


def test_an_address_of_another_machine_is_wrong(tmp_path: Path) -> None:
    (finding,) = check_port(make_installation(tmp_path, 'host = "192.0.2.1"\nport = 9\n'))
    assert finding.severity == Severity.ERROR
    assert "Cannot assign requested address; no process listens there" in finding.message


def test_a_port_of_the_service_of_this_folder_is_right(tmp_path: Path, healthy: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / URL_FILE).write_text(f"http://127.0.0.1:{healthy}\n")
    (finding,) = check_port(make_installation(tmp_path, f"port = {healthy}\n"))
    assert finding.severity == Severity.OK
    assert f"at http://127.0.0.1:{healthy}" in finding.message


def test_a_port_of_a_service_of_another_folder_is_wrong(tmp_path: Path, healthy: int) -> None:
    (finding,) = check_port(make_installation(tmp_path, f"port = {healthy}\n"))
    assert finding.severity == Severity.ERROR
    assert "an auctune service of another data folder" in finding.message


def test_a_noted_service_that_is_gone_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free = listening.getsockname()[1]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / URL_FILE).write_text(f"http://127.0.0.1:{free}\n")
    (finding,) = check_port(make_installation(tmp_path, f"port = {free}\n"))
    assert (finding.severity, "no longer runs" in finding.message) == (Severity.WARN, True)


class Stranger(BaseHTTPRequestHandler):
    """Answers as vendors do to what is not signed."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def vendor() -> Iterator[str]:
    """The URL of a vendor that is there."""
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def vendors(url: str, tmp_path: Path) -> str:
    (tmp_path / "secret").write_text("s" * 40)
    return f'[[zones]]\n[[zones.vendors]]\nname = "v"\nurl = "{url}"\ntoken_file = "secret"\n'


def test_vendors_are_asked_only_online_and_answer_or_not(tmp_path: Path, vendor: str) -> None:
    assert severities(check_vendors(make_installation(tmp_path))) == {Severity.OK}
    gone = vendors("http://127.0.0.1:9", tmp_path)
    (unasked,) = check_vendors(make_installation(tmp_path, gone))
    assert "not contacted" in unasked.message
    (silent,) = check_vendors(make_installation(tmp_path, gone, online=True))
    assert (silent.severity, "does not answer" in silent.message) == (Severity.WARN, True)
    (there,) = check_vendors(make_installation(tmp_path, vendors(vendor, tmp_path), online=True))
    assert (there.severity, "answers (401)" in there.message) == (Severity.OK, True)


def test_ray_is_asked_only_where_an_address_names_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert severities(check_ray(make_installation(tmp_path))) == {Severity.OK}
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    assert "nothing answers" in only(check_ray(make_installation(tmp_path)), Severity.ERROR).message
    assert cluster_finding("ray://somewhere:1").severity == Severity.WARN


@pytest.mark.slow
def test_what_listens_and_is_no_head_of_ray_is_wrong(vendor: str) -> None:
    assert "is not the head" in cluster_finding(vendor.removeprefix("http://")).message


@pytest.mark.slow
@pytest.mark.ray
def test_the_head_of_a_cluster_that_runs_is_right() -> None:
    with LocalCluster({}):
        import ray

        assert cluster_finding(ray.get_runtime_context().gcs_address).severity == Severity.OK
