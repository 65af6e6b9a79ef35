"""Where vendors fetch data sets: mounted by the service, and reached by links alone."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.service.vendors.exchange import CHUNK_BYTES
from auctune.service.vendors.links import Clock, DataLinks
from auctune.service.vendors.secret import Secret
from auctune.service.vendors.signature import DIGEST
from auctune.service.vendors.signed_app import SignedApp

Find = Callable[[str, str], Path | None]
"""The file for a vendor, by name, with a SHA-256; none if there is none to be had any more."""


def make_data_app(
    links: DataLinks, find: Find, secrets: Mapping[str, Secret], clock: Clock = time.time
) -> ASGIApp:
    """An application to mount where `links.base` points.

    Args:
        links: makes the links that are good here.
        find: finds a file for a vendor by its digest; it may block as long as a look-up does.
        secrets: shared with vendors, by their names.
        clock: unix time.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(Request(scope), links, find)(scope, receive, send)

    return SignedApp(serve, lambda query: secrets.get(query.get("vendor", "")), clock)


def _answer(request: Request, links: DataLinks, find: Find) -> Response:
    if request.method != "GET":
        return JSONResponse({"reason": "a data set can be fetched only"}, 405)
    digest = request.url.path.rpartition("/")[2]
    if not links.is_good(digest, request.query_params):
        return JSONResponse({"reason": "the link is wrong, or its time is over"}, 403)
    path = find(request.query_params["vendor"], digest)
    try:
        size = None if path is None else path.stat().st_size
    except FileNotFoundError:
        size = None
    if path is None or size is None:
        return JSONResponse({"reason": "the data set is gone"}, 410)
    headers = {DIGEST: digest, "content-length": str(size)}
    return StreamingResponse(_read(path), headers=headers, media_type="application/jsonl")


async def _read(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(CHUNK_BYTES):
            yield chunk
