"""The service's side of the vendor protocol: quotes, orders and results over HTTP.

Nothing that a vendor sends is trusted: redirects are not followed, nothing is decompressed, no
more is read than the request allows, and a result is checked as an upload is. Every call is
idempotent, and retried after transient faults until its time is over. A vendor gets a file while it
is shared with it: while it prepares a quote, or has the order.
"""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256 as new_sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TypeVar

import anyio
import httpx2
import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from auctune.datasets import read_dataset
from auctune.domain import InputError, Money, parse_money
from auctune.engine.vendors import DroppedRow, Example, RepairReport
from auctune.files.atomic import replace_durably
from auctune.service.vendors.protocol import (
    MONEY,
    DataBody,
    DatasetSummary,
    Decline,
    DeclineBody,
    ErrorBody,
    Fault,
    Offer,
    OfferBody,
    Order,
    OrderRequest,
    OrderStatus,
    QuoteBody,
    QuoteRequest,
    ReportBody,
    ResultBody,
    VendorError,
    VendorToken,
    check_url,
    is_protected,
    sanitize,
)

T = TypeVar("T")
B = TypeVar("B", bound=BaseModel)
Clock = Callable[[], float]
OnChunk = Callable[[bytes], Awaitable[object]]

INITIAL_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 10.0
CONNECT_TIMEOUT_SECONDS = 5.0
READ_TIMEOUT_SECONDS = 30.0
MAX_BODY_BYTES = 1 << 16
MAX_RESULT_BYTES = 512 << 20
"""Largest size of a repaired data set."""
ANSWER_SECONDS = 30.0
"""To accept, report or drop an order, retries included."""
POLL_SECONDS = 10.0
"""Between two polls of an order that takes long; the first come sooner."""
# Responses of servers and proxies that are overloaded, starting or stopping.
BUSY_STATUSES = frozenset({429, 502, 503, 504})

# A vendor gets this share of the time for a quote; the rest is for the network.
_ANSWER_SHARE = 0.8
IF_TRANSIENT = retry_if_exception(lambda e: isinstance(e, VendorError) and e.is_transient)
# Between the first two polls of an order.
_MIN_POLL_SECONDS = 0.05
_POLL_GROWTH = 1.5
_MONEY = re.compile(MONEY)
_QUOTE: TypeAdapter[OfferBody | DeclineBody] = TypeAdapter(QuoteBody)
# A report may name each row as dropped, with a reason.
_REPORT_ROW_BYTES = 512
_MIN_REPORT_BYTES, _MAX_REPORT_BYTES = 1 << 20, 128 << 20

_log = structlog.get_logger(__name__)


def make_client() -> httpx2.AsyncClient:
    """Return a client for vendors; the caller closes it.

    It takes no proxy and no password from the environment: data sets go where the settings say.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(READ_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
        headers={"accept-encoding": "identity", "user-agent": "auctune"},
        follow_redirects=False,
        trust_env=False,
    )


async def retry(call: Callable[[], Awaitable[T]], vendor: str, seconds: float) -> T:
    """Return what `call` returns; retry it after transient faults until the time is over.

    Waits are random up to a bound that doubles, so that callers that failed together do not retry
    together. Afterwards the last transient fault is raised, as LATE.
    """
    last: BaseException | None = None

    async def attempt() -> T:
        return await call()

    def note(state: RetryCallState) -> None:
        nonlocal last
        last = state.outcome.exception() if state.outcome is not None else None

    retrying = AsyncRetrying(
        retry=IF_TRANSIENT,
        wait=wait_random_exponential(multiplier=INITIAL_BACKOFF_SECONDS, max=MAX_BACKOFF_SECONDS),
        before_sleep=note,
    )
    try:
        async with asyncio.timeout(seconds):
            return await retrying(attempt)
    except TimeoutError:
        detail = f"no response within {seconds:g} s"
        if isinstance(last, VendorError):
            detail += f"; last fault: {last.fault}: {last.detail}"
        raise VendorError(vendor, Fault.LATE, detail) from None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status and body of a response; the body is empty if it was passed on in chunks."""

    status: int
    body: bytes = b""

    @property
    def reason(self) -> str:
        """The sender's reason for a refusal."""
        try:
            return ErrorBody.model_validate_json(self.body).reason
        except ValidationError:
            return "no reason given"


class TokenClient:
    """HTTP client of one peer, over https or loopback, authenticated by a bearer token."""

    def __init__(self, name: str, token: VendorToken, client: httpx2.AsyncClient) -> None:
        self._name = name
        self._token = token
        self._client = client

    async def request(
        self, method: str, url: str, body: bytes = b"", max_bytes: int = MAX_BODY_BYTES
    ) -> HttpResponse:
        """Send a request, and read a response of `max_bytes` at most."""
        async with self._open(method, url, body) as response:
            return await self._read_small(response, max_bytes)

    async def download(
        self, url: str, max_bytes: int, sha256: str, on_chunk: OnChunk
    ) -> HttpResponse:
        """Pass the bytes of a file on as they come; they count once this returns with status 200.

        A response other than 200 is read as a body. Another file is a VendorError.
        """
        async with self._open("GET", url) as response:
            if response.status_code != 200:
                return await self._read_small(response, MAX_BODY_BYTES)
            digest = new_sha256()
            async for chunk in self._chunks(response, max_bytes):
                digest.update(chunk)
                await on_chunk(chunk)
            if digest.hexdigest() != sha256:
                raise self._error(Fault.RESULT, "a file that differs from the announced one")
            return HttpResponse(200)

    @asynccontextmanager
    async def _open(
        self, method: str, url: str, body: bytes = b""
    ) -> AsyncIterator[httpx2.Response]:
        headers = {"authorization": self._token.authorization}
        if body:
            headers["content-type"] = "application/json"
        try:
            request = self._client.build_request(method, url, content=body, headers=headers)
            if not is_protected(request.url.scheme, request.url.host):
                raise self._error(Fault.PROTOCOL, "a URL that is neither https nor loopback")
            response = await self._client.send(request, stream=True)
            try:
                self._check_head(response)
                yield response
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            raise self._error(Fault.LATE, type(error).__name__) from None
        except httpx2.InvalidURL:
            raise self._error(Fault.PROTOCOL, "an invalid URL") from None
        except httpx2.HTTPError as error:
            raise self._error(Fault.UNREACHABLE, f"{type(error).__name__}: {error}") from None

    def _check_head(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in BUSY_STATUSES:
            raise self._error(Fault.BUSY, f"status {status}")
        if 300 <= status < 400:
            raise self._error(Fault.REDIRECT, f"status {status}")
        if "content-encoding" in response.headers:
            raise self._error(Fault.PROTOCOL, "a compressed body, which was not requested")

    async def _read_small(self, response: httpx2.Response, max_bytes: int) -> HttpResponse:
        body = b"".join([chunk async for chunk in self._chunks(response, max_bytes)])
        return HttpResponse(response.status_code, body)

    async def _chunks(self, response: httpx2.Response, max_bytes: int) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in response.aiter_raw(CHUNK_BYTES):
            size += len(chunk)
            if size > max_bytes:
                raise self._error(Fault.SIZE, f"a body of more than {max_bytes} bytes")
            yield chunk

    def _error(self, fault: Fault, detail: str) -> VendorError:
        return VendorError(self._name, fault, detail)


@dataclass(frozen=True, slots=True)
class VendorParams:
    """Address of a vendor; its routes begin at `url`: "https://vendor.example/auctune"."""

    name: str
    url: str
    token: VendorToken

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("name", "is empty", "a name")
        check_url(self.url, "url")


class VendorClient:
    """Requests quotes, gives orders and fetches results; raises VendorError.

    `data_url` is where vendors fetch data sets: "https://market.example/vendors/data".
    """

    def __init__(
        self,
        params: VendorParams,
        data_url: str,
        client: httpx2.AsyncClient,
        clock: Clock = time.time,
    ) -> None:
        self._params = params
        self._data_url = data_url
        self._clock = clock
        self._client = TokenClient(params.name, params.token, client)

    @property
    def name(self) -> str:
        return self._params.name

    async def quote(self, data: DatasetSummary, seconds: float) -> Offer | Decline:
        """Request a quote for repairing a data set; the answer must arrive within `seconds`."""
        request = QuoteRequest(
            data=self._describe(data), answer_within_seconds=_ANSWER_SHARE * seconds
        )
        sent_at = self._clock()
        response = await self._request("POST", "/quotes", request.to_bytes(), seconds)
        self._require_status(response, 200)
        try:
            body = _QUOTE.validate_json(response.body)
        except ValidationError as error:
            raise self._protocol_error(error) from None
        if isinstance(body, DeclineBody):
            return Decline(self.name, sanitize(body.reason))
        price = self._read_price(body.price)
        return Offer(self.name, body.offer, price, body.delay_seconds, sent_at + body.valid_seconds)

    async def order(self, order: Order) -> None:
        """Give an order; the same order again is the same work."""
        body = OrderRequest(
            offer=order.offer,
            price=str(order.price),
            data=self._describe(order.data),
        ).to_bytes()
        response = await self._request("PUT", f"/orders/{order.id}", body, ANSWER_SECONDS)
        self._require_status(response, 200, 201)
        self._parse(OrderStatus, response)

    async def fetch(self, order: Order, target: Path, seconds: float) -> RepairReport:
        """Wait until an order is done, and write the repaired data set to `target`.

        `target` appears whole or not at all, and only if it is a data set of the kind and the
        number of rows that the vendor reports.
        """
        # Beside the target: a rename is atomic within one file system only.
        with TemporaryDirectory(
            dir=target.parent, prefix=".delivery-", ignore_cleanup_errors=True
        ) as folder:
            draft = Path(folder) / "draft"
            report = await retry(lambda: self._wait_and_download(order, draft), self.name, seconds)
            await asyncio.to_thread(install_result, draft, report, target)
            return report

    async def discard(self, order_id: str) -> None:
        """Have the vendor drop an order and its data; one attempt."""
        response = await self._client.request("DELETE", self._url(f"/orders/{order_id}"))
        self._require_status(response, 200, 404)

    async def _wait_and_download(self, order: Order, draft: Path) -> RepairReport:
        result = await self._wait(order)
        if result.bytes > MAX_RESULT_BYTES:
            raise self._error(Fault.SIZE, f"a result of {result.bytes} bytes")
        with draft.open("wb") as file:

            async def write(chunk: bytes) -> None:
                await asyncio.to_thread(file.write, chunk)

            url = self._url(f"/orders/{order.id}/data")
            response = await self._client.download(url, result.bytes, result.sha256, write)
        self._require_status(response, 200)
        max_bytes = min(_MIN_REPORT_BYTES + _REPORT_ROW_BYTES * order.data.rows, _MAX_REPORT_BYTES)
        response = await self._client.request(
            "GET", self._url(f"/orders/{order.id}/report"), max_bytes=max_bytes
        )
        self._require_status(response, 200)
        return make_report(self.name, self._parse(ReportBody, response))

    async def _wait(self, order: Order) -> ResultBody:
        """Poll the state until the order is done."""
        seconds = min(_MIN_POLL_SECONDS, POLL_SECONDS)
        while True:
            status = await self._get_status(order)
            if status.state == "done" and status.result is not None:
                return status.result
            if status.state == "done":
                raise self._error(Fault.PROTOCOL, "state done, without a result")
            if status.state == "failed":
                raise self._error(Fault.FAILED, status.reason)
            if status.state == "needs_data":
                await self.order(order)
            await asyncio.sleep(seconds)
            seconds = min(_POLL_GROWTH * seconds, POLL_SECONDS)

    async def _get_status(self, order: Order) -> OrderStatus:
        response = await self._client.request("GET", self._url(f"/orders/{order.id}"))
        if response.status == 404:
            # The vendor has lost the order: place it again.
            return OrderStatus(state="needs_data")
        self._require_status(response, 200)
        return self._parse(OrderStatus, response)

    def _describe(self, data: DatasetSummary) -> DataBody:
        url = f"{self._data_url}/{data.sha256}"
        return DataBody(rows=data.rows, bytes=data.bytes, sha256=data.sha256, url=url)

    def _url(self, path: str) -> str:
        return f"{self._params.url.rstrip('/')}/v3{path}"

    async def _request(self, method: str, path: str, body: bytes, seconds: float) -> HttpResponse:
        url = self._url(path)
        return await retry(lambda: self._client.request(method, url, body), self.name, seconds)

    def _require_status(self, response: HttpResponse, *statuses: int) -> None:
        if response.status not in statuses:
            raise self._error(Fault.REFUSED, f"status {response.status}: {response.reason}")

    def _parse(self, model: type[B], response: HttpResponse) -> B:
        try:
            return model.model_validate_json(response.body)
        except ValidationError as error:
            raise self._protocol_error(error) from None

    def _protocol_error(self, error: ValidationError) -> VendorError:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        return self._error(Fault.PROTOCOL, f"{place}: {first['msg']}")

    def _read_price(self, price: object) -> Money:
        if not isinstance(price, str) or not _MONEY.fullmatch(price):
            raise self._error(Fault.PRICE, f"{price!r} is not an amount of money")
        return parse_money(price, "price")

    def _error(self, fault: Fault, detail: str) -> VendorError:
        return VendorError(self.name, fault, detail)


def make_report(vendor: str, body: ReportBody) -> RepairReport:
    """Return a vendor's report as the service's own type, its texts sanitized."""
    dropped = (DroppedRow(row.line, row.reason, sanitize(row.note)) for row in body.dropped)
    examples = (
        Example(row.line, row.actions, sanitize(row.before), sanitize(row.after))
        for row in body.examples
    )
    try:
        return RepairReport(
            vendor=vendor,
            kind=body.kind,
            rows_in=body.rows_in,
            rows_out=body.rows_out,
            actions=dict(body.actions),
            dropped=tuple(dropped),
            examples=tuple(examples),
        )
    except ValueError as error:
        raise VendorError(vendor, Fault.RESULT, f"the report: {error}") from None


def install_result(draft: Path, report: RepairReport, target: Path) -> None:
    """Rename a downloaded file to `target`, if it is the data set that the report describes."""
    try:
        data = read_dataset(draft, "the result")
    except InputError as error:
        raise VendorError(report.vendor, Fault.RESULT, str(error)) from None
    found, reported = (data.kind, len(data)), (report.kind, report.rows_out)
    if found != reported:
        detail = f"{found[1]} {found[0]} rows, but {reported[1]} {reported[0]} rows are reported"
        raise VendorError(report.vendor, Fault.RESULT, detail)
    replace_durably(draft, target)


async def request_quotes(
    vendors: Sequence[VendorClient], data: DatasetSummary, seconds: float
) -> list[Offer | Decline | VendorError]:
    """Request quotes of all vendors concurrently, and return their answers in the same order.

    A vendor without a valid answer within `seconds` is left out of this auction only.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_quote(vendor, data, seconds)) for vendor in vendors]
    return [task.result() for task in tasks]


async def _quote(
    vendor: VendorClient, data: DatasetSummary, seconds: float
) -> Offer | Decline | VendorError:
    try:
        answer = await vendor.quote(data, seconds)
    except VendorError as error:
        _log.warning(
            "a vendor made no offer",
            vendor=vendor.name,
            fault=str(error.fault),
            detail=error.detail,
        )
        return error
    if isinstance(answer, Decline):
        _log.info("a vendor declined", vendor=vendor.name, reason=answer.reason)
    return answer


CHUNK_BYTES = 1 << 18


class SharedFiles:
    """Files that vendors may fetch at the moment, by vendor and SHA-256. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._paths: defaultdict[tuple[str, str], list[Path]] = defaultdict(list)

    @contextmanager
    def share(self, path: Path, sha256: str, vendor: str) -> Iterator[None]:
        """Let a vendor fetch a file inside this block; blocks may overlap."""
        key = vendor, sha256
        with self._lock:
            self._paths[key].append(path)
        try:
            yield
        finally:
            with self._lock:
                self._paths[key].remove(path)
                if not self._paths[key]:
                    del self._paths[key]

    def find(self, vendor: str, sha256: str) -> Path | None:
        with self._lock:
            paths = self._paths.get((vendor, sha256))
            return paths[0] if paths else None


def make_vendor_app(files: SharedFiles, tokens: Mapping[str, VendorToken]) -> Starlette:
    """Return the application that serves data sets; `tokens` are by vendor."""

    async def data(request: Request) -> Response:
        sent = request.headers.get("authorization", "")
        vendors = [vendor for vendor, token in tokens.items() if token.matches(sent)]
        if not vendors:
            return _refuse(401, "the vendor's token is required")
        paths = (files.find(vendor, request.path_params["sha256"]) for vendor in vendors)
        path = next((path for path in paths if path is not None), None)
        try:
            size = None if path is None else path.stat().st_size
        except FileNotFoundError:
            size = None
        if path is None or size is None:
            return _refuse(410, "the data set is not shared with this vendor now")
        headers = {"content-length": str(size)}
        return StreamingResponse(_read(path), headers=headers, media_type="application/jsonl")

    return Starlette(routes=[Route("/data/{sha256}", data, methods=["GET"])])


async def _read(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(CHUNK_BYTES):
            yield chunk


def _refuse(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"reason": reason}, status)
