"""HTTP application: routes, error handlers, health checks and metrics."""

import asyncio
from functools import cache
from typing import Any, Literal

import orjson
from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse, RedirectResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

import auctune
from auctune.service.datasets.repairer import VENDOR_ROOT
from auctune.service.http.errors import ERRORS, HANDLERS
from auctune.service.http.middleware import RequestMiddleware
from auctune.service.http.requests import (
    OperatorUser,
    ServiceDep,
    component_schemas,
    reject_ignored,
)
from auctune.service.http.routes import (
    accounts,
    answers,
    files,
    jobs,
    ledger,
    streams,
    webhooks,
    zones,
)
from auctune.service.page.app import make_page
from auctune.service.page.templates import ROOT
from auctune.service.service import Service

_ROUTERS = (
    files.router,
    jobs.router,
    streams.router,
    jobs.quote_router,
    zones.router,
    zones.decision_router,
    ledger.router,
    webhooks.router,
    accounts.router,
    answers.router,
)


class Health(BaseModel):
    """Response of a running process."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Readiness of the service to accept bids."""

    status: Literal["ready", "not ready"]
    reason: str | None = None


class _App(FastAPI):
    """FastAPI application whose document has the bodies that routes parse themselves."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        document["components"]["schemas"].update(component_schemas())
        return document


def make_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service."""
    app = _App(
        title="auctune",
        version=auctune.__version__,
        description="A market for fine-tuning, with OpenAI's fine-tuning API in front.",
        openapi_url=None,
        exception_handlers=HANDLERS,
    )
    app.state.service = service
    app.add_middleware(RequestMiddleware, service=service)
    for router in _ROUTERS:
        app.include_router(router, dependencies=[Depends(reject_ignored)])
    if service.vendor_app is not None:
        app.mount(VENDOR_ROOT, service.vendor_app)

    app.mount(ROOT, make_page(service))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return RedirectResponse(f"{ROOT}/", 303)

    @cache
    def openapi_json() -> bytes:
        return orjson.dumps(app.openapi())

    # The document needs no key: it is built once, in a thread.
    building = asyncio.Lock()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        async with building:
            body = await asyncio.to_thread(openapi_json)
        return Response(body, media_type="application/json")

    @app.get("/health", tags=["operation"], response_model=Health)
    async def health() -> dict[str, str]:
        """Return 200 while the process runs."""
        return {"status": "ok"}

    @app.get(
        "/ready",
        tags=["operation"],
        response_model=Readiness,
        responses={503: {"model": Readiness}},
    )
    async def ready(service: ServiceDep) -> Response:
        """Return 200 while the service accepts bids, and otherwise 503 with the reason."""
        reason = service.unready_reason()
        if reason is not None:
            return JSONResponse({"status": "not ready", "reason": reason}, 503)
        return JSONResponse({"status": "ready"})

    @app.get(
        "/metrics",
        tags=["operation"],
        responses={**ERRORS, 200: {"content": {"text/plain": {}}}},
        response_class=Response,
    )
    async def metrics(service: ServiceDep, who: OperatorUser) -> Any:
        """Return totals for Prometheus, to operators; see docs/reference/api.md."""
        return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    return app
