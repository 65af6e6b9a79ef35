"""The service's side of the vendor protocol on a loopback port, in a thread with its own loop."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.service.vendors import (
    SharedFiles,
    VendorClient,
    VendorParams,
    VendorToken,
    client,
    make_client,
    make_vendor_app,
)

T = TypeVar("T")

TOKEN_TEXT = "shared-with-one-vendor-" + "s" * 20
TOKEN = VendorToken(TOKEN_TEXT)


class Gate:
    """Holds requests for data sets back while it is shut, and says when one has come."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.reached = threading.Event()
        self.shut = self._open.clear
        self.open = self._open.set

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application behind the gate."""

        async def pass_through(scope: Scope, receive: Receive, send: Send) -> None:
            if "/data/" in scope["path"]:
                self.reached.set()
                await self._open.wait()
            await app(scope, receive, send)

        return pass_through


class VendorMarket:
    """Runs coroutines of the service's side, and serves the files that it shares."""

    def __init__(self, loop: asyncio.AbstractEventLoop, data_url: str, gate: Gate) -> None:
        self.loop = loop
        self.data_url = data_url
        self.gate = gate
        self.files = SharedFiles()
        self.client = self.run(_make_client())

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 20.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def call(self, function: Any) -> None:
        async def now() -> None:
            function()

        self.run(now())

    def vendor(self, url: str, name: str = "mender", token: VendorToken = TOKEN) -> VendorClient:
        """A vendor at this address."""
        return VendorClient(VendorParams(name, url, token), self.data_url, self.client)


async def _make_client() -> Any:
    return make_client()


@contextmanager
def vendor_market(tokens: Mapping[str, VendorToken]) -> Iterator[VendorMarket]:
    """A market of vendors, with short timeouts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "ANSWER_SECONDS", 5.0)
        patch.setattr(client, "POLL_SECONDS", 0.2)
        with _vendor_market(tokens) as market:
            yield market


@contextmanager
def _vendor_market(tokens: Mapping[str, VendorToken]) -> Iterator[VendorMarket]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/vendors"
    market = VendorMarket(loop, f"{base}/data", Gate())
    try:
        vendor_app = make_vendor_app(market.files, tokens)
        app = Starlette(routes=[Mount("/vendors", app=market.gate.around(vendor_app))])
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.run_coroutine_threadsafe(_serve(server, listener), loop)
        yield market
        market.call(market.gate.open)
        market.run(market.client.aclose())
        server.should_exit = True
        serving.result(600)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        listener.close()


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    await server.serve(sockets=[listener])
