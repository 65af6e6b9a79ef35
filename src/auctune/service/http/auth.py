"""Authentication of requests: key, role and rate."""

import math
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.types import Scope

from auctune.service.accounts.registry import Principal
from auctune.service.http.errors import ApiError, retry_after
from auctune.service.service import Service

KEY = "auctune.who"
"""In a scope: id of the key with which, or with whose session, the request was sent."""
_PRINCIPAL = "auctune.principal"
_bearer = HTTPBearer(auto_error=False, description="An API key")

SECURED: dict[str, Any] = {"security": [{"HTTPBearer": []}]}
"""OpenAPI description of a route that does not declare a user dependency."""


async def get_service(request: Request) -> Service:
    """Return the service behind the application."""
    service: Service = request.app.state.service
    return service


def authenticate(scope: Scope, service: Service) -> Principal:
    """Return the sender of a request, from its headers; raise 401 or 429."""
    header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, secret = header.decode("latin-1").partition(" ")
    who = service.accounts.authenticate(secret.strip()) if scheme.lower() == "bearer" else None
    if who is None:
        raise ApiError(
            401,
            "no valid API key; expected the header Authorization: Bearer sk-...",
            "invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
    scope[_PRINCIPAL] = who
    count_request(scope, service, who)
    return who


def count_request(scope: Scope, service: Service, who: Principal) -> None:
    """Note the sender of a request, and count it against its key's rate; raise 429 beyond that."""
    scope[KEY] = who.key
    wait = service.rate.acquire(who.key)
    if wait > 0:
        seconds = math.ceil(wait)
        raise ApiError(
            429,
            f"this key sends more than its requests a second; try again in {seconds} s",
            "rate_limit_exceeded",
            headers=retry_after(wait),
        )


def authenticate_user(request: Request) -> Principal:
    """Return the sender that `RequestMiddleware` has authenticated."""
    who: Principal = request.scope[_PRINCIPAL]
    return who


# The unused scheme puts the authentication into the OpenAPI document.
async def current_user(request: Request, _: Annotated[object, Security(_bearer)]) -> Principal:
    """Return the user that sent a request."""
    return authenticate_user(request)


async def require_operator(who: Annotated[Principal, Depends(current_user)]) -> Principal:
    """Return the operator that sent a request; raise 403 for other users."""
    if not who.is_operator:
        raise ApiError(403, "needs an operator's key", "forbidden")
    return who


ServiceDep = Annotated[Service, Depends(get_service)]
CurrentUser = Annotated[Principal, Depends(current_user)]
OperatorUser = Annotated[Principal, Depends(require_operator)]
