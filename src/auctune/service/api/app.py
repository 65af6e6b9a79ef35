"""The HTTP application: routes, errors, health and metrics around an open market."""

from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

import auctune
from auctune.service.api.access import MarketDep
from auctune.service.api.errors import handle_errors
from auctune.service.api.routes import files, jobs, ledger, people, quotes, zones
from auctune.service.api.short_way import ShortWay
from auctune.service.market import Market


def make_app(market: Market, registry: CollectorRegistry) -> FastAPI:
    """The application.

    Args:
        market: open.
        registry: of metrics.
    """
    app = FastAPI(
        title="auctune",
        version=auctune.__version__,
        description="A market for fine-tuning, with OpenAI's fine-tuning API in front.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.market = market
    handle_errors(app)
    for module in (files, jobs, quotes, zones, ledger, people):
        app.include_router(module.router)

    @app.get("/health", tags=["operation"])
    async def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/ready", tags=["operation"])
    async def ready(market: MarketDep) -> Response:
        """Whether bids are taken: 503 while the log cannot be written."""
        broken = [zone.name for zone in market.zones.values() if zone.desk.broken is not None]
        status = 503 if broken else 200
        return Response(status_code=status, content=b"not ready" if broken else b"ready")

    @app.get("/metrics", tags=["operation"], include_in_schema=False)
    async def metrics() -> Any:
        """For Prometheus: totals alone, nothing of any one user."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    app.add_middleware(ShortWay, market=market, handlers=app.exception_handlers)
    return app
