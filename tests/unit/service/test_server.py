"""What a server does around the service: its port, its open files, and how it is stopped."""

import asyncio
import resource
import signal
import socket
from collections.abc import Iterator

import httpx2
import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from auctune.domain import InputError
from auctune.service.server import Shutdown, StartupGate, _bind, raise_open_files


@pytest.fixture
def few_files() -> Iterator[int]:
    """A limit that this process may raise, and its end."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = max(64, before[0] // 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        yield few
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_as_many_files_may_be_opened_as_the_system_allows(few_files: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert raise_open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > few_files
    assert raise_open_files() in (hard, 1 << 20)


def test_a_port_that_is_taken_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError) as refused:
            _bind("127.0.0.1", port)
    message = f"port {port}: is in use; expected a free port: choose one with --port"
    assert str(refused.value) == message


def test_an_address_of_another_machine_is_no_place_to_listen_at() -> None:
    with pytest.raises(InputError, match=r"^192\.0\.2\.1:0: cannot be opened \(.*address"):
        _bind("192.0.2.1", 0)


def stopped(num_signals: int, error: Exception | None) -> tuple[bool, bool]:
    """Whether a server ends, and whether it drops open requests, after signals or an error."""

    async def run() -> tuple[bool, bool]:
        server = uvicorn.Server(uvicorn.Config("none"))
        shutdown = Shutdown(server)
        shutdown.handle_signals()
        for _ in range(num_signals):
            signal.raise_signal(signal.SIGTERM)
            for _ in range(10):
                await asyncio.sleep(0)
        if error is not None:
            await asyncio.to_thread(shutdown.report, error)
            await asyncio.sleep(0)
        assert shutdown.error is error
        return server.should_exit, server.force_exit

    return asyncio.run(run())


def test_signals_and_fatal_errors_stop_a_server() -> None:
    assert stopped(0, None) == (False, False)
    assert stopped(1, None) == (True, False)
    assert stopped(2, None) == (True, True)
    assert stopped(0, RuntimeError("state and log differ")) == (True, False)


def asked(gate: StartupGate, path: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=gate)

    async def run() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.get(path)

    return asyncio.run(run())


def test_until_a_service_is_open_it_answers_what_it_waits_for() -> None:
    gate = StartupGate()
    gate.report("measuring the device: mixed loads", 0.5)
    assert asked(gate, "/health").json() == {"status": "ok"}
    reason = "the service is starting: measuring the device: mixed loads (50%)"
    ready = asked(gate, "/ready")
    assert ready.status_code == 503
    assert ready.json() == {"status": "not ready", "reason": reason}
    for path in ("/v1/models", "/page/", "/nothing"):
        refused = asked(gate, path)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["error"]["message"] == reason
    gate.open(PlainTextResponse("open"))
    assert asked(gate, "/v1/models").text == "open"
