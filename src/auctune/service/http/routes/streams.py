"""Live events, as server-sent events (https://html.spec.whatwg.org/#server-sent-events).

The id of an event is its number in the log. A client that reconnects continues after the id in the
header Last-Event-ID, which browsers send automatically.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from auctune.service.accounts.limits import OPEN
from auctune.service.accounts.registry import Principal
from auctune.service.fair_queue import in_thread
from auctune.service.http.errors import ERRORS
from auctune.service.http.requests import CurrentUser, OperatorUser, ServiceDep
from auctune.service.http.routes.jobs import own_job
from auctune.service.http.routes.zones import zone_of
from auctune.service.http.serializers import JSON, event_view
from auctune.service.service import Service
from auctune.service.storage import EventRow, Page
from auctune.service.storage.event_log import EventType

router = APIRouter(prefix="/v1", tags=["streams"], responses=ERRORS)
LastEventId = Annotated[str | None, Header(pattern=r"^\d{1,18}$")]
After = Annotated[int | None, Query(ge=0, le=2**62)]
# Keepalives stop proxies from closing idle streams, and make revoked keys noticed.
_KEEPALIVE_SECONDS = 15.0
_BATCH = 100
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of a stream: not cached, and not buffered by nginx."""
_STREAM_ROUTE: dict[str, Any] = {
    "response_class": StreamingResponse,
    "responses": {200: {"content": {"text/event-stream": {}}, "description": "Server-sent events"}},
}
_ENDS = (EventType.FINISHED, EventType.FAILED, EventType.CANCELLED)

Read = Callable[[int], Page[EventRow]]
Show = Callable[[EventRow], JSON | None]


@router.get("/fine_tuning/jobs/{job_id}/events/stream", **_STREAM_ROUTE)
async def job_stream(
    service: ServiceDep,
    who: CurrentUser,
    request: Request,
    job_id: str,
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamingResponse:
    """Stream the events of a job, from the first or after an event, until the job is over."""
    job = await own_job(service, who, job_id)
    service.streams.check(who.key)
    messages = service.projection(job.zone).messages

    def read(seq: int) -> Page[EventRow]:
        return service.queries.events(_BATCH, seq, job=job_id, oldest_first=True)

    def show(row: EventRow) -> JSON | None:
        return event_view(row, messages) if row.type in messages else None

    start = int(last_event_id) if last_event_id is not None else after or 0
    is_over = job.status not in OPEN
    return _answer(_events(service, who, job_id, start, read, show, is_over=is_over))


@router.get("/zones/{zone_id}/events/stream", **_STREAM_ROUTE)
async def zone_stream(
    service: ServiceDep,
    who: OperatorUser,
    request: Request,
    zone_id: str,
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamingResponse:
    """Stream the events of a zone, from now or after an event."""
    zone_of(service, zone_id)
    service.streams.check(who.key)

    def read(seq: int) -> Page[EventRow]:
        return service.queries.events(_BATCH, seq, zone=zone_id, oldest_first=True)

    start = int(last_event_id) if last_event_id is not None else after
    if start is None:
        start = await in_thread(service.log.last_seq, zone_id)
    return _answer(_events(service, who, zone_id, start, read, _full_event))


def _answer(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


async def _events(
    service: Service,
    who: Principal,
    topic: str,
    seq: int,
    read: Read,
    show: Show,
    *,
    is_over: bool = False,
) -> AsyncIterator[bytes]:
    """Yield events after a number, until the job is over or the key is revoked.

    If `is_over`, the log contains all events of the job already.
    """
    with service.streams.acquire(who.key), service.notifier.subscribe(topic) as changed:
        # Sent at once, so that the client gets the response headers.
        yield b": the stream is open\n\n"
        while True:
            changed.clear()
            shown = await in_thread(_read_events, read, show, seq)
            for row, content in shown.items:
                seq = row.seq
                if content is not None:
                    yield content
                if row.job == topic and _is_last(row):
                    return
            if shown.has_more:
                continue
            if is_over:
                return
            try:
                await asyncio.wait_for(changed.wait(), _KEEPALIVE_SECONDS)
            except TimeoutError:
                yield b": keepalive\n\n"
            if not service.accounts.is_active(who.key):
                return


def _read_events(read: Read, show: Show, seq: int) -> Page[tuple[EventRow, bytes | None]]:
    """Return the events after a number, each as it is sent, or None if it is not."""
    page = read(seq)
    shown = [(row, show(row)) for row in page.items]
    items = [(row, None if one is None else _event(row, one)) for row, one in shown]
    return Page(tuple(items), page.has_more)


def _is_last(row: EventRow) -> bool:
    if row.type == EventType.DECIDED:
        return not orjson.loads(row.body)["decision"]["admitted"]
    return row.type in _ENDS


def _full_event(row: EventRow) -> JSON:
    return {
        "seq": row.seq,
        "zone": row.zone,
        "slot": row.slot,
        "at": row.at,
        "type": row.type,
        "job": row.job,
        "body": orjson.loads(row.body),
    }


def _event(row: EventRow, shown: JSON) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (row.seq, row.type.encode(), orjson.dumps(shown))
