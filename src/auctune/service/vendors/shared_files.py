"""The service's endpoints for vendors: data sets by signed, short-lived links; notifications.

A link is valid for one vendor and one file until one moment, and only while that file is shared
with that vendor: while it prepares a quote, or has the order. The vendor's token is required too,
so that a link read in a log is of no use.
"""

import hmac
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256 as new_sha256
from pathlib import Path
from threading import Lock
from urllib.parse import urlencode

import anyio
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from auctune.domain.checks import check_positive
from auctune.service.vendors.protocol import ORDER_UPDATED, NotificationBody, VendorToken

URL_LIFE_SECONDS = 600.0
CHUNK_BYTES = 1 << 18
MAX_NOTIFICATION_BYTES = 1 << 14

Clock = Callable[[], float]
OnUpdate = Callable[[str, str], None]
"""Called with a vendor's name and the id of an order whose state has changed."""


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


@dataclass(frozen=True, slots=True)
class SignedUrls:
    """Creates and verifies the links by which vendors fetch data sets.

    Attributes:
        base: where vendors reach the service: "https://market.example/vendors".
        key: known to the service alone. A new one invalidates all links.
        life_seconds: how long a link is valid.
    """

    base: str
    key: bytes
    life_seconds: float = URL_LIFE_SECONDS
    clock: Clock = time.time

    def __post_init__(self) -> None:
        check_positive(self.life_seconds, "life_seconds", "seconds > 0")

    def create(self, vendor: str, sha256: str) -> str:
        until = str(int(self.clock() + self.life_seconds))
        signature = self._sign(vendor, sha256, until)
        query = urlencode({"vendor": vendor, "until": until, "signature": signature})
        return f"{self.base.rstrip('/')}/data/{sha256}?{query}"

    def verify(self, sha256: str, query: Mapping[str, str]) -> bool:
        """Return whether a link was created here and has not expired."""
        until = query.get("until", "")
        expected = self._sign(query.get("vendor", ""), sha256, until)
        is_ours = hmac.compare_digest(expected.encode(), query.get("signature", "").encode())
        # A text that was signed here is a number.
        return is_ours and self.clock() < int(until)

    def notification(self, vendor: str) -> str:
        """Return the URL for a vendor's notifications; they are signed, so that the URL is not."""
        return f"{self.base.rstrip('/')}/notifications?{urlencode({'vendor': vendor})}"

    def _sign(self, vendor: str, sha256: str, until: str) -> str:
        text = "\n".join((vendor, sha256, until))
        return hmac.new(self.key, text.encode(), new_sha256).hexdigest()


def make_vendor_app(
    urls: SignedUrls,
    files: SharedFiles,
    tokens: Mapping[str, VendorToken],
    on_update: OnUpdate,
) -> Starlette:
    """Return the application to mount at `urls.base`.

    `tokens` are by vendor; `on_update` is called for each valid notification.
    """

    async def data(request: Request) -> Response:
        digest = request.path_params["sha256"]
        if not urls.verify(digest, request.query_params):
            return _refuse(403, "the link is invalid or has expired")
        vendor = request.query_params["vendor"]
        token = tokens.get(vendor)
        if token is None or not token.matches(request.headers.get("authorization", "")):
            return _refuse(401, "the vendor's token is required")
        path = files.find(vendor, digest)
        try:
            size = None if path is None else path.stat().st_size
        except FileNotFoundError:
            size = None
        if path is None or size is None:
            return _refuse(410, "the data set is no longer shared")
        headers = {"content-length": str(size)}
        return StreamingResponse(_read(path), headers=headers, media_type="application/jsonl")

    async def notifications(request: Request) -> Response:
        vendor = request.query_params.get("vendor", "")
        token = tokens.get(vendor)
        body = await _read_body(request)
        if body is None:
            return _refuse(413, f"a body of more than {MAX_NOTIFICATION_BYTES} bytes")
        if token is None or not token.is_signed(request.headers, body):
            return _refuse(401, "the signature is missing, wrong, or older than 5 minutes")
        try:
            message = NotificationBody.model_validate_json(body)
        except ValidationError:
            return _refuse(422, f"not a message of type {ORDER_UPDATED}")
        on_update(vendor, message.data.order)
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/data/{sha256}", data, methods=["GET"]),
            Route("/notifications", notifications, methods=["POST"]),
        ]
    )


async def _read_body(request: Request) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_NOTIFICATION_BYTES:
            return None
    return bytes(body)


async def _read(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(CHUNK_BYTES):
            yield chunk


def _refuse(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"reason": reason}, status)
