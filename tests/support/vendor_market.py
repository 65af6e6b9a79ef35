"""The market's side of the vendor protocol on a loopback port, in a thread with its own loop."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.service.vendors import (
    Backoff,
    DataLinks,
    HttpVendor,
    HttpVendorParams,
    LentFiles,
    Secret,
    make_client,
    make_data_app,
)

T = TypeVar("T")

SECRET = Secret("shared-with-one-vendor-" + "s" * 20)
LINK_KEY = Secret("known-to-the-market-alone-" + "k" * 20)
QUICK = Backoff(0.02, 0.2)


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
            self.reached.set()
            await self._open.wait()
            await app(scope, receive, send)

        return pass_through


class VendorMarket:
    """Runs coroutines of the market's side, and serves the files that it lends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, links: DataLinks, gate: Gate) -> None:
        self.loop = loop
        self.links = links
        self.gate = gate
        self.lent = LentFiles()
        self.client = self.run(_make_client())

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 20.0) -> T:
        """What a coroutine returns that runs in the market's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def call(self, function: Any) -> None:
        """Call a function in the market's loop."""

        async def now() -> None:
            function()

        self.run(now())

    def vendor(
        self, url: str, name: str = "mender", secret: Secret = SECRET, poll_seconds: float = 0.2
    ) -> HttpVendor:
        """A vendor at this address, asked with little patience."""
        params = HttpVendorParams(
            name, url, secret, answer_seconds=5.0, poll_seconds=poll_seconds, backoff=QUICK
        )
        return HttpVendor(params, self.links, self.client)


async def _make_client() -> Any:
    return make_client(idle_seconds=5.0)


@contextmanager
def vendor_market(secrets: Mapping[str, Secret]) -> Iterator[VendorMarket]:
    """A market that vendors with these secrets can reach."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/vendor-data"
    market = VendorMarket(loop, DataLinks(base, LINK_KEY), Gate())
    try:
        data_app = market.gate.around(make_data_app(market.links, market.lent.find, secrets))
        app = Starlette(routes=[Mount("/vendor-data", app=data_app)])
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.run_coroutine_threadsafe(_serve(server, listener), loop)
        yield market
        market.call(market.gate.open)
        market.run(market.client.aclose())
        server.should_exit = True
        serving.result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        listener.close()


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    await server.serve(sockets=[listener])
