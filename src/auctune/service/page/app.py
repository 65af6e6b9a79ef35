"""Application of the page, which calls the functions of the API's routes."""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, cast

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auctune.service.accounts.limits import TokenBuckets
from auctune.service.http.errors import ApiError, make_handlers
from auctune.service.http.routes import files as api_files
from auctune.service.http.routes import jobs, streams, zones
from auctune.service.page import (
    account_views,
    evaluation_views,
    job_views,
    zone_views,
)
from auctune.service.page.auth import (
    Endpoint,
    Page,
    PageContext,
    PageRequest,
    Sessions,
    cookie_of,
    csrf_protected,
    for_operators,
    login_required,
    sign_in,
    sign_in_form,
    sign_out,
    visit_of,
)
from auctune.service.page.templates import ROOT, render_page, style_sheet
from auctune.service.service import Service

_SIGN_INS_PER_SECOND, _SIGN_INS = 0.5, 30.0
_TYPES = {"css": "text/css", "js": "text/javascript", "txt": "text/plain", "svg": "image/svg+xml"}


def make_page(service: Service) -> Starlette:
    """Return the application of the page, to be mounted at `ROOT`."""
    app = Starlette(
        routes=[_named(path, method, endpoint) for path, method, endpoint in page_routes()],
        middleware=[Middleware(StrictHeaders)],
        exception_handlers=make_handlers(_error_page),
    )
    sign_ins = TokenBuckets(_SIGN_INS_PER_SECOND, _SIGN_INS, time.monotonic)
    sessions = Sessions(service.accounts.principal_of_key, service.now)
    app.state.context = PageContext(service, sessions, sign_ins)
    return app


def page_routes() -> list[tuple[str, str, Endpoint]]:
    """Return path, method and endpoint of each route."""
    page, form = login_required, csrf_protected
    job, zone, node = "/jobs/{job_id}", "/zones/{zone_id}", "/zones/{zone_id}/nodes/{node_id}"
    return [
        ("/", "GET", page(job_views.home)),
        ("/static/{name}", "GET", _static()),
        ("/sign-in", "GET", sign_in_form),
        ("/sign-in", "POST", sign_in),
        ("/sign-out", "POST", page(form(sign_out))),
        ("/jobs", "GET", page(job_views.list_jobs)),
        (job, "GET", page(job_views.job_page)),
        (f"{job}/why", "GET", page(job_views.why)),
        (f"{job}/answers", "POST", page(form(evaluation_views.answer))),
        (f"{job}/evaluations", "POST", page(form(evaluation_views.evaluate))),
        (f"{job}/news", "GET", page(job_updates)),
        (f"{job}/cancel", "POST", page(form(_action(jobs.cancel, job)))),
        (f"{job}/pause", "POST", page(form(_action(jobs.pause, job)))),
        (f"{job}/resume", "POST", page(form(_action(jobs.resume, job)))),
        ("/new", "GET", page(job_views.new_job)),
        ("/quotes", "POST", page(form(job_views.ask_quote))),
        ("/quotes/{quote_id}", "GET", page(job_views.quote_page)),
        ("/quotes/{quote_id}/accept", "POST", page(form(job_views.accept))),
        ("/quotes/{quote_id}/zone", "POST", page(form(job_views.ask_zone))),
        ("/files", "GET", page(job_views.list_files)),
        ("/files", "POST", page(job_views.upload)),
        ("/files/{file_id}/content", "GET", page(job_views.content)),
        ("/files/{file_id}/delete", "POST", page(form(_action(api_files.delete, "/files")))),
        ("/money", "GET", page(job_views.money_page)),
        ("/market", "GET", for_operators(zone_views.market_page)),
        ("/accounts", "GET", for_operators(account_views.accounts_page)),
        ("/accounts", "POST", for_operators(form(account_views.change_account))),
        (zone, "GET", for_operators(zone_views.zone_page)),
        (f"{zone}/news", "GET", for_operators(zone_updates)),
        (f"{zone}/pause", "POST", for_operators(form(_action(zones.pause, zone)))),
        (f"{zone}/resume", "POST", for_operators(form(_action(zones.resume, zone)))),
        (f"{node}/drain", "POST", for_operators(form(_action(zones.drain, f"{zone}#nodes")))),
        (f"{node}/return", "POST", for_operators(form(_action(zones.give_back, f"{zone}#nodes")))),
    ]


def _action(run: Callable[..., Awaitable[Any]], to: str) -> Page:
    async def act(visit: PageRequest) -> Response:
        params = visit.request.path_params
        await run(visit.service, visit.who, **params)
        return RedirectResponse(ROOT + to.format(**params), 303)

    return act


def _named(path: str, method: str, endpoint: Endpoint) -> Route:
    # The access log and metrics name requests by the pattern of their path.
    named = SimpleNamespace(path=ROOT + path)

    async def answer(request: Request) -> ASGIApp:
        request.scope["route"] = named
        return await endpoint(request)

    return Route(path, answer, methods=[method])


def _static() -> Endpoint:
    folder = files("auctune.service.page") / "static"
    content = {one.name: one.read_bytes() for one in folder.iterdir()}
    content["page.css"] = style_sheet().encode()

    async def answer(request: Request) -> Response:
        name = request.path_params["name"]
        # A user's counts for the key, a stranger's for the address.
        visit_of(request)
        if name not in content:
            return _error_page(request, ApiError(404, "There is no such file.", "not_found"))
        kind = _TYPES[name.rpartition(".")[2]]
        # A new release changes the content, not the name.
        headers = {"Cache-Control": "no-cache"}
        return Response(content[name], media_type=kind, headers=headers)

    return answer


def _error_page(request: Request, error: ApiError) -> Response:
    status, context = error.status_code, request.app.state.context
    title = {403: "Not allowed", 404: "Not found", 429: "Too many requests"}.get(
        status, "That did not work" if status < 500 else "Not now"
    )
    values = {"title": title, "message": error.content()["error"]["message"]}
    signed_in = context.sessions.get(cookie_of(request))
    if signed_in is None:
        page = render_page("error.html", status, **values)
    else:
        page = PageRequest(request, context, *signed_in).render("error.html", status, **values)
    page.headers.update(error.headers or {})
    return page


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


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `check_origin` needs the origin of forms; other sites do not get it.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class StrictHeaders:
    """Middleware that adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
