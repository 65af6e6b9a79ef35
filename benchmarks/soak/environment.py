"""The system under test: the service, its Ray cluster and its external vendors."""

import asyncio
import contextlib
import http.client
import json
import random
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auctune.service.private_files import write_private
from support.lying_vendor import Handler, Received, Write, answer, head, offer
from support.ray_nodes import RayNodes
from support.service_process import ServiceProcess, write_profile_for
from support.tiny_architecture import tiny_architecture
from support.vendor_process import VendorProcess

VENDOR_TOKEN = "shared-with-two-vendors-" + "s" * 20
NODES = ("alpha", "beta", "gamma", "delta")
CONSTANTS = {
    "auctune.engine.runtime.ray.launcher.RayLauncher.lease_seconds": 5.0,
    "auctune.engine.runtime.ray.launcher.RayLauncher.missing_seconds": 45.0,
    "auctune.service.config.edge.CHUNK_MB": 0.001,
    "auctune.service.vendors.client.ANSWER_SECONDS": 4.0,
    "auctune.service.vendors.client.POLL_SECONDS": 0.5,
    "auctune.service.zones.spot.worker.CHECKPOINT_SECONDS": 1.0,
}
"""Of the soak's service: slots are short, its rows few, and faults frequent."""
_TOKENS_PER_SECOND = 250.0
# Generous, as the machine may be overloaded.
_STOP_SECONDS = 150.0
_REQUEST_SECONDS = 60.0
_MAX_STARTS = 3
RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Response:
    """HTTP status and content of a response.

    Attributes:
        retry_after: seconds until the rate limit allows the request; `None` if it is not above it.
    """

    status: int
    content: bytes
    retry_after: float | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The content as JSON."""
        body: dict[str, Any] = json.loads(self.content)
        return body

    @property
    def error_code(self) -> str | None:
        """Code of an error response; `None` of one without JSON, which is a violation by itself."""
        try:
            error = self.body.get("error", {})
        except ValueError:
            return None
        code: str | None = error.get("code")
        return code


class Environment:
    """The service and all that faults are injected into.

    Args:
        folder: of the service's settings, profile and data.
        cluster: Ray nodes of the service.
        vendor: the reliable vendor.
        faulty_url: address of the vendor that breaks the protocol.

    Attributes:
        nodes_down: names of killed Ray nodes.
        nodes_drained: names of nodes that an operator has drained.
        start_seconds: duration of each start of the service.
        fault_counts, missed_fault_counts: faults that were injected, and those that found nothing
            to break, by name.
        violations: unexpected exits and failed starts of the service.
        stop_requested: ends the clients, and cuts their pauses short.
    """

    def __init__(
        self, folder: Path, cluster: RayNodes, vendor: VendorProcess, faulty_url: str
    ) -> None:
        self.folder = folder
        self.cluster = cluster
        self.vendor = vendor
        self.vendor_urls = {"reliable": vendor.url, "faulty": faulty_url}
        self.config = folder / "auctune.toml"
        self.data = folder / "data"
        self.service = ServiceProcess(self.config, self.data, _free_port(), CONSTANTS)
        self.nodes_down: set[str] = set()
        self.nodes_drained: set[str] = set()
        self.start_seconds: list[float] = []
        self.fault_counts: Counter[str] = Counter()
        self.missed_fault_counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.stop_requested = threading.Event()

    @property
    def nodes_up(self) -> Sequence[str]:
        """Names of running Ray nodes."""
        return [node for node in NODES if node not in self.nodes_down]

    def write_settings(self, zones: Iterable[str]) -> None:
        """Write auctune.toml with the tables of zones, and the files that they refer to."""
        write_profile_for(self.folder, tiny_architecture(), _TOKENS_PER_SECOND)
        write_private(self.folder / "vendor.token", VENDOR_TOKEN)
        self.config.write_text("\n".join(zones), encoding="utf-8")

    def start_service(self) -> None:
        """Start the service; after a failed start, kill it and retry.

        Raises:
            RuntimeError: after three failed starts.
        """
        for _ in range(_MAX_STARTS):
            try:
                self.start_seconds.append(self.service.start())
            except AssertionError as error:
                self._report(f"the service did not start: {error}")
                self.service.kill()
            else:
                return
        raise RuntimeError("the service does not start any more")

    def stop_service(self) -> None:
        """Send SIGTERM to the service and wait until it exits."""
        try:
            code = self.service.stop(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._report("the service did not exit after SIGTERM")
            self.service.kill()
            return
        if code != 0:
            self._report(f"the service exited with {code} after SIGTERM")

    def check_service(self) -> None:
        """Report an unexpected exit of the service and start it again."""
        if self.service.has_ended:
            self._report("the service exited unexpectedly")
            self.start_service()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Response | None:
        """Send one request to the service.

        Args:
            method: HTTP method.
            path: of the route.
            body: JSON or a form.
            headers: in addition to the key.
            key: API key; by default the operator's.

        Returns:
            The response, or `None` if none arrived: then the request may have taken effect or not.
            A status of 503 (the service cannot process it now) is not a response either. A
            request above a rate limit is sent again once the limit allows it.
        """
        while True:
            response = self._send_once(method, path, body, headers, key)
            if response is None or response.retry_after is None:
                return response
            # Not `stop_requested`: clients that are to stop would send without a pause.
            time.sleep(response.retry_after)

    def _send_once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        key: str | None,
    ) -> Response | None:
        sent = {"authorization": f"Bearer {key or self.service.key}"}
        sent |= {"content-type": "application/json", **(headers or {})}
        connection = http.client.HTTPConnection(*self.service.address, timeout=_REQUEST_SECONDS)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, body, sent)
                received = connection.getresponse()
                response = Response(received.status, received.read())
                if response.status == 429 and response.error_code == "rate_limit_exceeded":
                    wait = float(received.headers["retry-after"])
                    response = replace(response, retry_after=wait)
            except (OSError, http.client.HTTPException):
                return None
        return None if response.status == 503 else response

    def get(self, path: str) -> Response:
        """Send a GET request with the operator's key until a response arrives."""
        while (response := self.send("GET", path)) is None:
            self.stop_requested.wait(RETRY_SECONDS)
        return response

    def create(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Create a resource with the operator's key."""
        response = self.send("POST", path, json.dumps(fields).encode())
        assert response is not None
        assert response.status == 200, response.content
        return response.body

    def _report(self, violation: str) -> None:
        self.violations.append(f"{time.strftime('%H:%M:%S')}: {violation}")


def faulty_vendor(seed: int) -> Handler:
    """Return a vendor that responds correctly, wrongly, late or not at all, at random."""
    rng = random.Random(f"{seed} liar")

    def choose(request: Received) -> Handler:
        if request.path.endswith("/quotes"):
            # Valid ones are so cheap that they win.
            price = rng.choice(("0.0100", "0.0100", "0.0100", "-1", "much"))
            return answer(offer(price=price, delay_seconds=rng.choice((1, 4))))
        if request.method == "DELETE":
            return answer({})
        if request.path.endswith(("/data", "/report")):
            return answer(rng.choice((b"", b'{"prompt": "a", ', b"\x00" * 40)))
        return answer(rng.choice(_ORDER_STATES), rng.choice((200, 200, 201, 500)))

    async def handle(request: Received, write: Write) -> None:
        handler = rng.choices((choose(request), *_BROKEN_RESPONSES), (6, 1, 1, 1, 1))[0]
        await handler(request, write)

    return handle


_ORDER_STATES: tuple[dict[str, Any], ...] = (
    {"state": "accepted"},
    {"state": "failed", "reason": "no time"},
    {"state": "done", "result": {"bytes": 40, "sha256": "0" * 64}},
    {"state": "needs_data"},
    {"state": "perhaps"},
)


async def _time_out(_request: Received, _write: Write) -> None:
    await asyncio.sleep(6)


async def _cut_off_head(_request: Received, write: Write) -> None:
    await write(head()[:20])


async def _invalid_json(_request: Received, write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n???")


async def _cut_off_body(_request: Received, write: Write) -> None:
    body = json.dumps(offer(price="0.0001")).encode()
    await write(head(extra=f"content-length: {len(body)}\r\n") + body[:-5])


_BROKEN_RESPONSES: tuple[Callable[..., Any], ...] = (
    _time_out,
    _cut_off_head,
    _invalid_json,
    _cut_off_body,
)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
