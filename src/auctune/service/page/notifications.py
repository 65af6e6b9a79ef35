"""Server-sent change notifications; open pages fetch the content again."""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

from starlette.responses import Response, StreamingResponse

from auctune.service.http.routes import streams
from auctune.service.page.auth import PageRequest, cookie_of


async def job_updates(visit: PageRequest) -> Response:
    """Notify of changes of a job until it is over."""
    name, after = visit.param("job_id"), visit.query("after")
    stream = await streams.job_stream(
        visit.service, visit.who, visit.request, name, _last(visit), _number(after)
    )
    return _notify(visit, stream)


async def zone_updates(visit: PageRequest) -> Response:
    """Notify of changes of a zone."""
    stream = await streams.zone_stream(
        visit.service, visit.who, visit.request, visit.param("zone_id"), _last(visit)
    )
    return _notify(visit, stream)


def _notify(visit: PageRequest, stream: StreamingResponse) -> Response:
    events = cast(AsyncIterator[bytes], stream.body_iterator)
    return StreamingResponse(
        _strip_payload(visit, events), media_type="text/event-stream", headers=streams.HEADERS
    )


async def _strip_payload(visit: PageRequest, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield events with their id alone, until the session or the stream ends."""
    sessions, secret = visit.context.sessions, cookie_of(visit.request)
    async with aclosing(events) as open_events:  # type: ignore[type-var]
        async for event in open_events:
            if sessions.get(secret) is None:
                return
            number, _, _ = event.partition(b"\n")
            yield event if event.startswith(b":") else number + b"\ndata: news\n\n"
    yield b"event: over\ndata: over\n\n"


def _last(visit: PageRequest) -> str | None:
    text = visit.request.headers.get("last-event-id")
    return text if _number(text) is not None else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None
