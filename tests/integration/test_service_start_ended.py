"""A start that is ended by a signal while it waits for something that would take an hour."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from auctune.client.endpoint import STARTING_FILE
from auctune.engine.file_lock import NODES_LOCK, lock_file
from support.market_runs import descendants
from support.patched_auctune import patched_command
from support.service_process import WAIT_SECONDS, command_line
from support.waits import poll

pytestmark = pytest.mark.slow
pytest_plugins = ["support.tiny_bases"]

# It has no kernels to compile before its device is measured.
POOL = """
[[zones]]
kind = "timeshare"
name = "pool"
slot_seconds = 1
price_per_second = "0.01"
threads = 1
"""
AUCTION = "[[zones]]\nthreads = 1\n"
CONSTANTS = {"auctune.service.zones.core.kind.TINY_MEASURE_SECONDS": 3600.0}


class Start:
    """`auctune serve` that has not served yet."""

    def __init__(self, folder: Path, cache: Path, settings: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.data, self.log = folder / "data", folder / "log"
        config = folder / "auctune.toml"
        config.write_text(settings)
        command = [*patched_command(CONSTANTS), "serve", "--config", str(config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--data", self.data, "--port", str(self.port)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": str(folder)},
            )

    def wait_for(self, line: str) -> None:
        def is_there() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return line in self.log.read_text()

        poll(is_there, line)

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False)


@pytest.fixture
def cache(tmp_path: Path, tiny_cache: Path) -> Path:
    """A user's cache with the tiny base."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "auctune").symlink_to(tiny_cache)
    return tmp_path / "cache"


@pytest.fixture
def started(tmp_path: Path, cache: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    start = Start(tmp_path, cache, getattr(request, "param", POOL))
    yield start
    start.process.kill()
    start.process.wait()


def end(start: Start, number: signal.Signals) -> None:
    """Send a signal; check what is left of the start."""
    children = {pid: command_line(pid) for pid in descendants(start.process.pid)}
    assert children
    start.process.send_signal(number)
    assert start.process.wait(WAIT_SECONDS) == 128 + number
    poll(
        lambda: not any(line and line == command_line(pid) for pid, line in children.items()),
        "the children to end",
    )
    assert "stopped during startup" in start.log.read_text()
    assert "Traceback" not in start.log.read_text()
    assert not (start.data / STARTING_FILE).exists()
    with lock_file(start.data / NODES_LOCK, "data"):
        pass


def test_a_start_answers_what_it_waits_for_and_ends_at_ctrl_c(started: Start) -> None:
    started.wait_for("loading the base")
    assert started.get("/health").json() == {"status": "ok"}
    ready = started.get("/ready")
    assert ready.status_code == 503
    assert ready.json()["status"] == "not ready"
    assert ready.json()["reason"].startswith("the service is starting: ")
    refused = started.get("/v1/models")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert refused.json()["error"]["message"].startswith("the service is starting: ")
    end(started, signal.SIGINT)


def test_sigterm_ends_a_start_that_measures(started: Start) -> None:
    started.wait_for("measuring the device")
    end(started, signal.SIGTERM)


@pytest.mark.parametrize("started", [AUCTION], indirect=True)
def test_sigterm_ends_a_start_that_compiles(started: Start) -> None:
    started.wait_for("compiling the auction's kernels")
    end(started, signal.SIGTERM)
