"""The service's endpoint for vendors: data sets, to those who have a vendor's token.

A vendor gets a file while it is shared with it: while it prepares a quote, or has the order.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from auctune.service.vendors.protocol import VendorToken

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
