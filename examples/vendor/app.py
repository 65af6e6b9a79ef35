"""A data vendor: repairs data sets for a service of auctune over HTTP, at a price.

    python examples/vendor/app.py --port 8900 --folder orders --token-file vendor.token

It downloads a data set to price it, and deletes that copy after the offer. Accepted orders are on
disk, and are completed even if the process is killed and restarted.
"""

import argparse
import asyncio
import hmac
import json
import shutil
import socket
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.domain import InputError, parse_money
from auctune.domain.dataset import RowKind
from auctune.engine.file_lock import lock_file
from auctune.engine.vendors import RepairParams, RepairVendor
from auctune.files.atomic import replace_durably, write_atomically
from auctune.service.config.fields import check_private, read_secret
from auctune.service.vendors import (
    Fault,
    TokenClient,
    VendorError,
    VendorToken,
    make_client,
    retry,
    summarize,
)
from auctune.service.vendors.protocol import (
    DataBody,
    OrderRequest,
    QuoteRequest,
)

TOKEN_VARIABLE = "AUCTUNE_VENDOR_TOKEN"
FETCH_SECONDS = 60.0
MAX_REQUEST_BYTES = 1 << 16
# No order can have these names.
LOCK, DRAFTS = ".lock", ".drafts"

OrderId = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,64}$")]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of all offers, and the maximum size of a data set."""

    delay_seconds: int
    valid_seconds: int
    max_bytes: int


class Offers:
    """Offers that are not stored: each consists of its expiry and a signature over its terms."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, price: str, digest: str, until: int) -> str:
        """Return an offer for one data set at one price."""
        return f"{until}.{self._sign(price, digest, str(until))}"

    def find_fault(self, order: OrderRequest) -> str | None:
        """Return why an order with this offer is refused, or `None` if it is valid."""
        until, _, signature = order.offer.partition(".")
        expected = self._sign(order.price, order.data.sha256, until)
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            return "this was not offered"
        return None if time.time() < int(until) else "the offer has expired"

    def _sign(self, price: str, digest: str, until: str) -> str:
        text = "\n".join(("offer", price, digest, until))
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


class Orders:
    """Orders on disk, one folder each: the request, the data, the result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for marker in folder.glob("*/discarded"):
            self.discard(marker.parent.name)

    def path(self, order: str, name: str) -> Path:
        """Return the path of a file of an order."""
        return self._folder / order / name

    def read(self, order: str) -> OrderRequest | None:
        """Return the request of an order, or `None` if there is no such order."""
        path = self.path(order, "order.json")
        return OrderRequest.model_validate_json(path.read_bytes()) if path.exists() else None

    def accept(self, order: str, request: OrderRequest) -> None:
        """Store an order, or new URLs for it."""
        self.path(order, "").mkdir(exist_ok=True)
        write_atomically(self.path(order, "order.json"), request.to_bytes())

    def finish(self, order: str, state: Json) -> None:
        """Store the final state of an order."""
        if self.is_discarded(order):
            self.discard(order)
        else:
            write_atomically(self.path(order, "state.json"), json.dumps(state).encode())

    def state(self, order: str) -> Json:
        """Return the state of an order, as the protocol has it."""
        path = self.path(order, "state.json")
        state: Json = json.loads(path.read_bytes()) if path.exists() else {"state": "accepted"}
        return state

    def unfinished(self) -> list[str]:
        """Return accepted orders without a final state, the oldest first."""
        found = [
            path
            for path in self._folder.glob("*/order.json")
            if not path.with_name("state.json").exists()
        ]
        return [path.parent.name for path in sorted(found, key=lambda p: p.stat().st_mtime_ns)]

    def is_discarded(self, order: str) -> bool:
        """Return whether the service has dropped the order."""
        return self.path(order, "discarded").exists()

    def discard(self, order: str) -> None:
        """Delete the files of an order; a marker remains, so that it is not accepted again."""
        write_atomically(self.path(order, "discarded"), b"")
        for path in self.path(order, "").iterdir():
            if path.name != "discarded":
                path.unlink()


class OrderWorker:
    """Prices data sets, and processes orders one at a time."""

    def __init__(
        self, orders: Orders, repairer: RepairVendor, service: TokenClient, drafts: Path
    ) -> None:
        self._orders = orders
        self._drafts = drafts
        # Remains of a process that was killed while it priced data sets.
        shutil.rmtree(drafts, ignore_errors=True)
        drafts.mkdir()
        self._repairer = repairer
        self._service = service
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._without_data: set[str] = set()
        for order in orders.unfinished():
            self.enqueue(order)

    def enqueue(self, order: str) -> None:
        """Add an order to the queue."""
        self._without_data.discard(order)
        self._queue.put_nowait(order)

    def state(self, order: str) -> Json:
        """Return the state of an order, `needs_data` if its data could not be downloaded."""
        if order in self._without_data:
            return {"state": "needs_data"}
        return self._orders.state(order)

    async def price(self, data: DataBody) -> str | None:
        """Return the price for a data set, or `None` if it has no usable row."""
        with TemporaryDirectory(dir=self._drafts, ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "data.jsonl"
            await self._download(data, path)
            quote = await asyncio.to_thread(self._repairer.quote, path)
        return None if quote is None else str(quote.price)

    async def run(self) -> None:
        """Process orders until cancelled."""
        while True:
            order = await self._queue.get()
            request = self._orders.read(order)
            if request is not None and self._orders.state(order)["state"] == "accepted":
                await self._repair(order, request.data)

    async def _repair(self, order: str, data: DataBody) -> None:
        source, target = (self._orders.path(order, name) for name in ("source", "result"))
        try:
            if not source.exists():
                await self._fetch(order, data, source)
            report = await asyncio.to_thread(self._repairer.repair, source, target)
        except VendorError as error:
            print(f"order {order} waits for its data: {error.detail}", flush=True)
            self._without_data.add(order)
        except InputError as error:
            self._orders.finish(order, {"state": "failed", "reason": f"the data: {error.found}"})
        else:
            text = json.dumps(report.to_json())
            write_atomically(self._orders.path(order, "report"), text.encode())
            summary = summarize(target)
            result = {"bytes": summary.bytes, "sha256": summary.sha256}
            self._orders.finish(order, {"state": "done", "result": result})

    async def _fetch(self, order: str, data: DataBody, source: Path) -> None:
        draft = source.with_name("draft")
        await retry(lambda: self._download(data, draft), "service", FETCH_SECONDS)
        if not self._orders.is_discarded(order):
            replace_durably(draft, source)

    async def _download(self, data: DataBody, path: Path) -> None:
        with path.open("wb") as file:

            async def write(chunk: bytes) -> None:
                file.write(chunk)

            response = await self._service.download(data.url, data.bytes, data.sha256, write)
        if response.status != 200:
            detail = f"status {response.status}: {response.reason}"
            raise VendorError("service", Fault.REFUSED, detail)


class RequireToken:
    """Middleware that refuses requests without the token before it reads their bodies."""

    def __init__(self, app: ASGIApp, token: VendorToken) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            length = headers.get("content-length", "0")
            if not self._token.matches(headers.get("authorization", "")):
                app = _refuse(401, "the token is missing or wrong")
            elif "transfer-encoding" in headers or int(length) > MAX_REQUEST_BYTES:
                app = _refuse(413, f"a body of more than {MAX_REQUEST_BYTES} bytes, or chunked")
        await app(scope, receive, send)


def make_app(worker: OrderWorker, orders: Orders, token: VendorToken, terms: Terms) -> FastAPI:
    """Return the vendor's routes, all of which require the token."""
    app = FastAPI(title="auctune data vendor", openapi_url=None)
    app.add_middleware(RequireToken, token=token)
    offers = Offers(token.authorization.encode())

    @app.exception_handler(RequestValidationError)
    async def refuse_request(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _refuse(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    @app.post("/v3/quotes")
    async def quote(request: QuoteRequest) -> Json:
        data = request.data
        if data.bytes > terms.max_bytes:
            return {"decision": "decline", "reason": f"more than {terms.max_bytes} bytes"}
        try:
            async with asyncio.timeout(request.answer_within_seconds):
                price = await worker.price(data)
        except (TimeoutError, VendorError):
            return {"decision": "decline", "reason": "the data could not be fetched in time"}
        if price is None:
            return {"decision": "decline", "reason": "no usable row would be left"}
        offer = offers.make(price, data.sha256, int(time.time()) + terms.valid_seconds)
        times = {"delay_seconds": terms.delay_seconds, "valid_seconds": terms.valid_seconds}
        return {"decision": "offer", "offer": offer, "price": price, **times}

    @app.put("/v3/orders/{order}")
    async def accept(order: OrderId, request: OrderRequest) -> Response:
        if orders.is_discarded(order):
            return _refuse(410, "the order was dropped")
        known = orders.read(order)
        if known is None and (fault := offers.find_fault(request)) is not None:
            return _refuse(410, fault)
        if known is not None and not _is_same(known, request):
            return _refuse(409, "another order has this id")
        if orders.state(order)["state"] == "accepted":
            orders.accept(order, request)
            worker.enqueue(order)
        return JSONResponse(worker.state(order), 201 if known is None else 200)

    @app.get("/v3/orders/{order}")
    async def state(order: OrderId) -> Response:
        if orders.read(order) is None:
            return _refuse(404, "no such order")
        return JSONResponse(worker.state(order))

    @app.get("/v3/orders/{order}/data")
    async def data(order: OrderId) -> Response:
        if orders.state(order)["state"] != "done":
            return _refuse(404, "no such result")
        return FileResponse(orders.path(order, "result"))

    @app.get("/v3/orders/{order}/report")
    async def report(order: OrderId) -> Response:
        if orders.state(order)["state"] != "done":
            return _refuse(404, "no such result")
        text = orders.path(order, "report").read_bytes()
        return Response(text, media_type="application/json")

    @app.delete("/v3/orders/{order}")
    async def discard(order: OrderId) -> Response:
        if orders.read(order) is None and not orders.is_discarded(order):
            return _refuse(404, "no such order")
        orders.discard(order)
        return JSONResponse({})

    return app


def _is_same(known: OrderRequest, request: OrderRequest) -> bool:
    """Compare orders without their URLs, which differ between retries."""
    data = request.data.model_copy(update={"url": known.data.url})
    return known == request.model_copy(update={"data": data})


def _refuse(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status)


async def serve(options: argparse.Namespace, token: VendorToken, params: RepairParams) -> None:
    """Serve requests and process orders until the process is stopped."""
    orders = Orders(options.folder)
    terms = Terms(options.delay_seconds, options.valid_seconds, options.max_bytes)
    # Bind before printing the port, so that a reader of the line can connect.
    listener = socket.create_server((options.host, options.port))
    async with make_client() as client, asyncio.TaskGroup() as group:
        service = TokenClient("service", token, client)
        worker = OrderWorker(orders, RepairVendor(params), service, options.folder / DRAFTS)
        app = make_app(worker, orders, token, terms)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        print(f"listening on port {listener.getsockname()[1]}", flush=True)
        # A full disk ends the worker, and with it the process.
        task = group.create_task(worker.run())
        await uvicorn.Server(config).serve(sockets=[listener])
        task.cancel()


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description="A data vendor for a service of auctune.")
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=int, default=8900, help="port to listen on; 0: any (%(default)s)")
    add("--folder", type=Path, required=True, help="folder of orders")
    add("--token-file", help=f"token shared with the service; else in {TOKEN_VARIABLE}")
    add("--price", default="0", help="money for an order (%(default)s)")
    add("--price-per-row", default="0", help="money for each row found (%(default)s)")
    add("--delay-seconds", type=int, default=60, help="duration of an order (%(default)s)")
    add("--valid-seconds", type=int, default=600, help="validity of an offer (%(default)s)")
    add("--max-bytes", type=int, default=100 << 20, help="of a data set (%(default)s)")
    add("--min-characters", type=int, default=2, help="of a row to keep (%(default)s)")
    add("--max-characters", type=int, default=100_000, help="of a row to keep (%(default)s)")
    add("--languages", default="", help="to keep: ISO 639 codes, separated by commas; all if empty")
    add("--similarity", type=float, default=0.9, help="of near-duplicates (%(default)s)")
    add(
        "--kind",
        type=RowKind,
        choices=list(RowKind),
        help="of the repaired rows; by default that of most rows",
    )
    return parser


def read_params(options: argparse.Namespace) -> RepairParams:
    """Return the parameters of repairs."""
    return RepairParams(
        name="vendor",
        price=parse_money(options.price, "--price"),
        price_per_row=parse_money(options.price_per_row, "--price-per-row"),
        min_characters=options.min_characters,
        max_characters=options.max_characters,
        languages=tuple(code for code in options.languages.split(",") if code),
        similarity=options.similarity,
        kind=options.kind,
    )


def read_token(path: str | None) -> VendorToken:
    """Return the token from a private file, or from the environment."""
    if path is not None:
        check_private("--token-file", Path(path))
    variable = TOKEN_VARIABLE if path is None else None
    return VendorToken(read_secret("vendor", variable, path, what="token"), "the token")


def main() -> None:
    """Run the vendor."""
    options = make_parser().parse_args()
    try:
        params = read_params(options)
        token = read_token(options.token_file)
        options.folder.mkdir(parents=True, exist_ok=True)
        with lock_file(options.folder / LOCK, str(options.folder)):
            asyncio.run(serve(options, token, params))
    except InputError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
