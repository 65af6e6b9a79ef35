"""The page as an application of its own, beside the API and over its functions."""

import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from auctune.run.report_parts import page_style
from auctune.service.accounts.limits import TokenBuckets
from auctune.service.http.errors import handle_errors
from auctune.service.http.routes import jobs, zones
from auctune.service.page import (
    file_pages,
    job_pages,
    live,
    money_pages,
    quote_pages,
    sign_in,
    zone_pages,
)
from auctune.service.page.guard import (
    ROOT,
    Endpoint,
    House,
    for_operators,
    posted,
    signed_in,
    uploaded,
)
from auctune.service.page.headers import StrictHeaders
from auctune.service.page.look import show_error
from auctune.service.page.sessions import Sessions
from auctune.service.service import Service

_SIGN_INS_PER_SECOND, _SIGN_INS = 0.5, 30.0
_TYPES = {"css": "text/css", "js": "text/javascript", "txt": "text/plain", "svg": "image/svg+xml"}


def make_page(service: Service) -> Starlette:
    """The page of a market, to be mounted at `ROOT`."""
    app = Starlette(
        routes=[_named(path, method, endpoint) for path, method, endpoint in _routes()],
        middleware=[Middleware(StrictHeaders)],
        exception_handlers=_error_pages(),
    )
    sign_ins = TokenBuckets(_SIGN_INS_PER_SECOND, _SIGN_INS, time.monotonic)
    sessions = Sessions(service.directory, service.now)
    app.state.house = House(service, sessions, sign_ins, service.charts)
    return app


def page_routes() -> list[tuple[str, str]]:
    """Path and method of each of its routes."""
    return [(path, method) for path, method, _ in _routes()]


def _routes() -> list[tuple[str, str, Endpoint]]:
    page, form = signed_in, posted
    job, zone, node = "/jobs/{job_id}", "/zones/{zone_id}", "/zones/{zone_id}/nodes/{node_id}"
    act, on_zone, on_node = job_pages.action, zone_pages.zone_action, zone_pages.node_action
    return [
        ("/", "GET", page(job_pages.home)),
        ("/static/{name}", "GET", _static()),
        ("/sign-in", "GET", sign_in.sign_in_form),
        ("/sign-in", "POST", sign_in.sign_in),
        ("/sign-out", "POST", page(form(sign_in.sign_out))),
        ("/jobs", "GET", page(job_pages.list_jobs)),
        (job, "GET", page(job_pages.job_page)),
        (f"{job}/why", "GET", page(job_pages.why)),
        (f"{job}/news", "GET", page(live.job_news)),
        (f"{job}/cancel", "POST", page(form(act(jobs.cancel)))),
        (f"{job}/pause", "POST", page(form(act(jobs.pause)))),
        (f"{job}/resume", "POST", page(form(act(jobs.resume)))),
        ("/new", "GET", page(quote_pages.new_job)),
        ("/quotes", "POST", page(form(quote_pages.ask_quote))),
        ("/quotes/{quote_id}", "GET", page(quote_pages.quote_page)),
        ("/quotes/{quote_id}/accept", "POST", page(form(quote_pages.accept))),
        ("/quotes/{quote_id}/zone", "POST", page(form(quote_pages.ask_zone))),
        ("/files", "GET", page(file_pages.list_files)),
        ("/files", "POST", page(uploaded(file_pages.upload))),
        ("/files/{file_id}/content", "GET", page(file_pages.content)),
        ("/files/{file_id}/delete", "POST", page(form(file_pages.delete))),
        ("/money", "GET", page(money_pages.money_page)),
        ("/market", "GET", for_operators(zone_pages.market_page)),
        (zone, "GET", for_operators(zone_pages.zone_page)),
        (f"{zone}/news", "GET", for_operators(live.zone_news)),
        (f"{zone}/pause", "POST", for_operators(form(on_zone(zones.pause)))),
        (f"{zone}/resume", "POST", for_operators(form(on_zone(zones.resume)))),
        (f"{node}/drain", "POST", for_operators(form(on_node(zones.drain)))),
        (f"{node}/return", "POST", for_operators(form(on_node(zones.give_back)))),
    ]


def _named(path: str, method: str, endpoint: Endpoint) -> Route:
    """A route that the gate knows by its pattern."""
    named = SimpleNamespace(path=ROOT + path)

    async def answer(request: Request) -> Response:
        request.scope["route"] = named
        return await endpoint(request)

    return Route(path, answer, methods=[method])


def _static() -> Endpoint:
    """What pages need beside; read once, as there are few."""
    folder = files("auctune.service.page") / "static"
    held = {one.name: one.read_bytes() for one in folder.iterdir()}
    held["page.css"] = page_style().encode() + b"\n" + held["page.css"]

    async def answer(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in held:
            return show_error(request, 404, "There is no such file.")
        kind = _TYPES[name.rpartition(".")[2]]
        # The name stays when a release changes what is in it.
        headers = {"Cache-Control": "no-cache"}
        return Response(held[name], media_type=kind, headers=headers)

    return answer


Handler = Callable[[Request, Any], Awaitable[Response]]


def _error_pages() -> dict[Any, Handler]:
    """The API's answers to errors, as pages."""
    api = FastAPI()
    handle_errors(api)
    return {kind: _as_page(handler) for kind, handler in api.exception_handlers.items()}


def _as_page(handler: Any) -> Handler:
    async def answer(request: Request, error: Exception) -> Response:
        told = await handler(request, error)
        if not told.body or told.media_type != "application/json":
            return show_error(request, told.status_code, "")
        message = orjson.loads(told.body)
        # Some of the framework's own handlers have another shape.
        said = message["error"]["message"] if "error" in message else str(message["detail"])
        page = show_error(request, told.status_code, said)
        for name in ("retry-after", "connection"):
            if name in told.headers:
                page.headers[name] = told.headers[name]
        return page

    return answer
