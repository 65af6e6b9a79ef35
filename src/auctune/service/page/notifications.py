"""Server-sent change notifications; open pages fetch the content again."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

from starlette.responses import Response, StreamingResponse

from auctune.service.http.routes import streams
from auctune.service.page.auth import PageRequest, cookie_of

_LAST = "last-event-id"


async def job_updates(visit: PageRequest) -> Response:
    """Of a job, until it is over."""
    name, after = visit.param("job_id"), visit.query("after")
    told = await streams.job_stream(
        visit.service, visit.who, visit.request, name, _last(visit), _number(after)
    )
    return _news(visit, told)


async def zone_updates(visit: PageRequest) -> Response:
    """Of a zone."""
    told = await streams.zone_stream(
        visit.service, visit.who, visit.request, visit.param("zone_id"), _last(visit)
    )
    return _news(visit, told)


def _news(visit: PageRequest, told: StreamingResponse) -> Response:
    events = cast(AsyncIterator[bytes], told.body_iterator)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _strip_payload(visit, events), media_type="text/event-stream", headers=headers
    )


async def _strip_payload(visit: PageRequest, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each event by its number alone, until the session is over or nothing more will come."""
    sessions, secret = visit.context.sessions, cookie_of(visit.request)
    async with aclosing(events) as open_events:  # type: ignore[type-var]
        async for event in open_events:
            if sessions.get(secret) is None:
                return
            number, _, _ = event.partition(b"\n")
            yield event if event.startswith(b":") else number + b"\ndata: news\n\n"
    yield b"event: over\ndata: over\n\n"


def _last(visit: PageRequest) -> str | None:
    found = visit.request.headers.get(_LAST)
    return found if found is not None and _number(found) is not None else None


def _number(text: str | None) -> int | None:
    return (
        int(text)
        if text is not None and text.isascii() and text.isdecimal() and len(text) <= 18
        else None
    )
