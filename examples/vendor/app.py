"""A data vendor to run: repairs data sets for a market, for money, over HTTP.

    python examples/vendor/app.py --port 8900 --folder orders --secret-file secret

It looks at a data set before it makes an offer, keeps nothing of it unless the order comes, and
keeps its orders on disk: one that was accepted is done, whatever happens to the process.
"""

import argparse
import asyncio
import json
import shutil
import socket
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response

from auctune.domain import InputError, parse_money
from auctune.domain.dataset import RowKind
from auctune.run.atomic_file import replace_durably, write_atomically
from auctune.run.lock import hold
from auctune.run.vendors import RepairParams, RepairVendor
from auctune.service.vendors import (
    Backoff,
    Exchange,
    Fault,
    Secret,
    SignedApp,
    VendorError,
    make_client,
    read_facts,
    read_secret_file,
    read_secret_variable,
)
from auctune.service.vendors.backoff import persist
from auctune.service.vendors.messages import DataBody, OrderRequest, QuoteRequest
from auctune.service.vendors.signature import DIGEST

SECRET_VARIABLE = "AUCTUNE_VENDOR_SECRET"
FETCH_SECONDS = 60.0
MAX_WAIT_SECONDS = 20.0
# No order can be called so.
LOCK, DRAFTS = ".lock", ".drafts"

OrderId = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,64}$")]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """What the vendor promises, and what it takes."""

    delay_seconds: int
    valid_seconds: int
    max_bytes: int


class Offers:
    """Offers that need not be kept: each is its end, and a signature over all that it says."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def make(self, price: str, digest: str, until: int) -> str:
        """An offer for one data set at one price."""
        return f"{until}.{self._secret.sign(_offer_text(price, digest, str(until)))}"

    def find_fault(self, order: OrderRequest) -> str | None:
        """Why an order by this offer cannot be taken."""
        until, _, signature = order.offer.partition(".")
        text = _offer_text(order.price, order.data.sha256, until)
        if not self._secret.matches(text, signature):
            return "this was not offered"
        return None if time.time() < int(until) else "the offer's time is over"


def _offer_text(price: str, digest: str, until: str) -> str:
    return "\n".join(("offer", price, digest, until))


class Orders:
    """One folder an order: what was ordered, the data, the result. Its files are its state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for marker in folder.glob("*/forgotten"):
            self.forget(marker.parent.name)

    def path(self, order: str, name: str) -> Path:
        """Where one of an order's files is."""
        return self._folder / order / name

    def read(self, order: str) -> OrderRequest | None:
        """What was ordered; none if there is no such order."""
        path = self.path(order, "order.json")
        return OrderRequest.model_validate_json(path.read_bytes()) if path.exists() else None

    def accept(self, order: str, request: OrderRequest) -> None:
        """Put an order on disk, or a new link to its data."""
        self.path(order, "").mkdir(exist_ok=True)
        write_atomically(self.path(order, "order.json"), request.to_bytes())

    def finish(self, order: str, state: Json) -> None:
        """Put on disk what became of an order."""
        if self.is_forgotten(order):
            self.forget(order)
        else:
            write_atomically(self.path(order, "state.json"), json.dumps(state).encode())

    def state(self, order: str) -> Json:
        """How far an order is, as the protocol says it."""
        path = self.path(order, "state.json")
        state: Json = json.loads(path.read_bytes()) if path.exists() else {"state": "accepted"}
        return state

    def unfinished(self) -> list[str]:
        """The oldest first."""
        found = [
            path
            for path in self._folder.glob("*/order.json")
            if not path.with_name("state.json").exists()
        ]
        return [path.parent.name for path in sorted(found, key=lambda p: p.stat().st_mtime_ns)]

    def is_forgotten(self, order: str) -> bool:
        """Whether the market said that it needs the order no more."""
        return self.path(order, "forgotten").exists()

    def forget(self, order: str) -> None:
        """Drop all of an order but that it was there, so that it is not done twice."""
        write_atomically(self.path(order, "forgotten"), b"")
        for path in self.path(order, "").iterdir():
            if path.name != "forgotten":
                path.unlink()


class Desk:
    """Looks at data sets, and does orders one after the other."""

    def __init__(
        self, orders: Orders, repairer: RepairVendor, market: Exchange, drafts: Path
    ) -> None:
        self._orders = orders
        self._drafts = drafts
        # Of a process that was killed while it looked at data.
        shutil.rmtree(drafts, ignore_errors=True)
        drafts.mkdir()
        self._repairer = repairer
        self._market = market
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._changes: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._stuck: set[str] = set()
        for order in orders.unfinished():
            self.put(order)

    def put(self, order: str) -> None:
        """Work on an order when its turn comes."""
        self._stuck.discard(order)
        self._queue.put_nowait(order)

    def state(self, order: str) -> Json:
        """How far an order is: one whose data cannot be had waits for a new link."""
        return {"state": "needs_data"} if order in self._stuck else self._orders.state(order)

    async def wait(self, order: str, seconds: float) -> None:
        """Until an order's state changes, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changes[order].wait()

    async def price(self, data: DataBody) -> str | None:
        """What the work on a data set costs; none if nothing would be left of it."""
        with TemporaryDirectory(dir=self._drafts, ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "data.jsonl"
            await self._download(data, path)
            quote = await asyncio.to_thread(self._repairer.quote, path)
        return None if quote is None else str(quote.price)

    async def work(self) -> None:
        """Without an end."""
        while True:
            order = await self._queue.get()
            request = self._orders.read(order)
            if request is not None and self._orders.state(order)["state"] == "accepted":
                await self._do(order, request.data)
            self._changes.pop(order, asyncio.Event()).set()

    async def _do(self, order: str, data: DataBody) -> None:
        source, target = (self._orders.path(order, name) for name in ("source", "result"))
        try:
            if not source.exists():
                await self._fetch(order, data, source)
            report = await asyncio.to_thread(self._repairer.repair, source, target)
        except VendorError as error:
            print(f"order {order} waits for its data: {error.detail}", flush=True)
            self._stuck.add(order)
        except InputError as error:
            self._orders.finish(order, {"state": "failed", "reason": f"the data: {error.found}"})
        else:
            text = json.dumps(report.to_json())
            write_atomically(self._orders.path(order, "report"), text.encode())
            facts = read_facts(target)
            result = {"bytes": facts.bytes, "sha256": facts.sha256}
            self._orders.finish(order, {"state": "done", "result": result})

    async def _fetch(self, order: str, data: DataBody, source: Path) -> None:
        draft = source.with_name("draft")
        backoff = Backoff()
        await persist(lambda: self._download(data, draft), "market", FETCH_SECONDS, backoff)
        if not self._orders.is_forgotten(order):
            replace_durably(draft, source)

    async def _download(self, data: DataBody, path: Path) -> None:
        with path.open("wb") as file:

            async def write(chunk: bytes) -> None:
                file.write(chunk)

            answer = await self._market.download(data.url, data.bytes, data.sha256, write)
        if answer.status != 200:
            raise VendorError("market", Fault.REFUSED, f"status {answer.status}: {answer.reason}")


def make_app(desk: Desk, orders: Orders, secret: Secret, terms: Terms) -> FastAPI:
    """The vendor's routes, all of them behind signatures."""
    app = FastAPI(title="auctune data vendor", openapi_url=None)
    app.add_middleware(SignedApp, secret_of=lambda _: secret)
    offers = Offers(secret)

    @app.exception_handler(RequestValidationError)
    async def refuse_request(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _refuse(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    @app.post("/v1/quotes")
    async def quote(request: QuoteRequest) -> Json:
        data = request.data
        if data.bytes > terms.max_bytes:
            return {"decision": "decline", "reason": f"more than {terms.max_bytes} bytes"}
        try:
            async with asyncio.timeout(request.answer_within_seconds):
                price = await desk.price(data)
        except (TimeoutError, VendorError):
            return {"decision": "decline", "reason": "the data could not be looked at in time"}
        if price is None:
            return {"decision": "decline", "reason": "no usable row would be left"}
        offer = offers.make(price, data.sha256, int(time.time()) + terms.valid_seconds)
        times = {"delay_seconds": terms.delay_seconds, "valid_seconds": terms.valid_seconds}
        return {"decision": "offer", "offer": offer, "price": price, **times}

    @app.put("/v1/orders/{order}")
    async def take(order: OrderId, request: OrderRequest) -> Response:
        if orders.is_forgotten(order):
            return _refuse(410, "the order was dropped")
        known = orders.read(order)
        if known is None and (fault := offers.find_fault(request)) is not None:
            return _refuse(410, fault)
        if known is not None and not _is_same(known, request):
            return _refuse(409, "another order has this id")
        if orders.state(order)["state"] == "accepted":
            orders.accept(order, request)
            desk.put(order)
        return JSONResponse(desk.state(order), 201 if known is None else 200)

    @app.get("/v1/orders/{order}")
    async def look(order: OrderId, wait: float = 0.0) -> Response:
        if orders.read(order) is not None and desk.state(order)["state"] == "accepted":
            await desk.wait(order, min(wait, MAX_WAIT_SECONDS))
        if orders.read(order) is None:
            return _refuse(404, "no such order")
        return JSONResponse(desk.state(order))

    @app.get("/v1/orders/{order}/data")
    async def give_data(order: OrderId) -> Response:
        state = orders.state(order)
        if state["state"] != "done":
            return _refuse(404, "no such result")
        return FileResponse(
            orders.path(order, "result"), headers={DIGEST: state["result"]["sha256"]}
        )

    @app.get("/v1/orders/{order}/report")
    async def give_report(order: OrderId) -> Response:
        if orders.state(order)["state"] != "done":
            return _refuse(404, "no such result")
        report = orders.path(order, "report").read_bytes()
        return Response(report, media_type="application/json")

    @app.delete("/v1/orders/{order}")
    async def drop(order: OrderId) -> Response:
        if orders.read(order) is None and not orders.is_forgotten(order):
            return _refuse(404, "no such order")
        orders.forget(order)
        return JSONResponse({})

    return app


def _is_same(known: OrderRequest, request: OrderRequest) -> bool:
    """But for the link, which is a new one each time."""
    data = request.data.model_copy(update={"url": known.data.url})
    return known == request.model_copy(update={"data": data})


def _refuse(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status)


async def serve(given: argparse.Namespace, secret: Secret, params: RepairParams) -> None:
    """Answer, and work, until the process is told to stop."""
    orders = Orders(given.folder)
    terms = Terms(given.delay_seconds, given.valid_seconds, given.max_bytes)
    # Bound before anything is said, so that whoever reads the line can connect.
    listener = socket.create_server((given.host, given.port))
    async with make_client() as client, asyncio.TaskGroup() as group:
        market = Exchange("market", secret, client)
        desk = Desk(orders, RepairVendor(params), market, given.folder / DRAFTS)
        app = make_app(desk, orders, secret, terms)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        print(f"listening on port {listener.getsockname()[1]}", flush=True)
        # A disk that is full ends the worker, and with it the process.
        worker = group.create_task(desk.work())
        await uvicorn.Server(config).serve(sockets=[listener])
        worker.cancel()


def make_parser() -> argparse.ArgumentParser:
    """What the command line can say."""
    parser = argparse.ArgumentParser(description="A data vendor for a market of auctune.")
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=int, default=8900, help="port to listen on; 0: any (%(default)s)")
    add("--folder", type=Path, required=True, help="where orders are kept")
    add("--secret-file", type=Path, help=f"shared with the market; else in {SECRET_VARIABLE}")
    add("--price", default="0", help="money for taking an order (%(default)s)")
    add("--price-per-row", default="0", help="money for each row found (%(default)s)")
    add("--delay-seconds", type=int, default=60, help="promised for any order (%(default)s)")
    add("--valid-seconds", type=int, default=600, help="that an offer stands (%(default)s)")
    add("--max-bytes", type=int, default=100 << 20, help="of a data set (%(default)s)")
    add("--min-characters", type=int, default=2, help="of a row to keep (%(default)s)")
    add("--max-characters", type=int, default=100_000, help="of a row to keep (%(default)s)")
    add("--languages", default="", help="to keep: ISO 639 codes with commas; all if empty")
    add("--similarity", type=float, default=0.9, help="of near-duplicates (%(default)s)")
    add("--kind", type=RowKind, choices=list(RowKind), help="of the rows written; else most rows'")
    return parser


def read_params(given: argparse.Namespace) -> RepairParams:
    """How the vendor repairs."""
    return RepairParams(
        name="vendor",
        price=parse_money(given.price, "--price"),
        price_per_row=parse_money(given.price_per_row, "--price-per-row"),
        min_characters=given.min_characters,
        max_characters=given.max_characters,
        languages=tuple(code for code in given.languages.split(",") if code),
        similarity=given.similarity,
        kind=given.kind,
    )


def main() -> None:
    """Run the vendor."""
    given = make_parser().parse_args()
    try:
        params = read_params(given)
        secret = (
            read_secret_file(given.secret_file)
            if given.secret_file
            else read_secret_variable(SECRET_VARIABLE)
        )
        given.folder.mkdir(parents=True, exist_ok=True)
        with hold(given.folder / LOCK, str(given.folder)):
            asyncio.run(serve(given, secret, params))
    except InputError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
