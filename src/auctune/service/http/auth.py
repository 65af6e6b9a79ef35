"""Authentication of requests: key, role and rate."""

from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.types import Scope

from auctune.service.accounts.keys import Principal, Role
from auctune.service.http.errors import ApiError
from auctune.service.service import Service

_PRINCIPAL = "auctune.principal"
_bearer = HTTPBearer(auto_error=False, description="An API key")

SECURED: dict[str, Any] = {"security": [{"HTTPBearer": []}]}
"""For the OpenAPI document, where a route asks by itself who it is."""


async def get_service(request: Request) -> Service:
    """Return the service of the app."""
    service: Service = request.app.state.service
    return service


def authenticate(scope: Scope, service: Service) -> Principal:
    """Return whose request it is, from its head alone.

    Raises:
        ApiError: 401 without a good key, 429 for too many requests.
    """
    header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, secret = header.decode("latin-1").partition(" ")
    who = service.directory.authenticate(secret.strip()) if scheme.lower() == "bearer" else None
    if who is None:
        raise ApiError(
            401,
            "no valid API key; expected the header Authorization: Bearer sk-...",
            "invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
    scope["auctune.who"] = who.key
    scope[_PRINCIPAL] = who
    check_rate(service, who)
    return who


def check_rate(service: Service, who: Principal) -> None:
    """That a key does not ask too often.

    Raises:
        ApiError: 429 if it does.
    """
    wait = service.rate.acquire(who.key)
    if wait > 0:
        raise ApiError(
            429,
            f"too many requests; try again in {wait:.1f} s",
            "rate_limit_exceeded",
            headers={"Retry-After": f"{max(1, round(wait))}"},
        )


def authenticate_user(request: Request) -> Principal:
    """Return whose request it is, of somebody who brings jobs; the gate has let it through.

    Raises:
        ApiError: 403 for a vendor's.
    """
    who: Principal = request.scope[_PRINCIPAL]
    if who.role is Role.VENDOR:
        raise ApiError(403, "needs a user's key; this one is a vendor's", "forbidden")
    return who


# Named, so that the OpenAPI document lists the scheme.
async def current_user(request: Request, _: Annotated[object, Security(_bearer)]) -> Principal:
    """A request of somebody who brings jobs."""
    return authenticate_user(request)


async def require_operator(who: Annotated[Principal, Depends(current_user)]) -> Principal:
    """An operator's request.

    Raises:
        ApiError: 403 for anybody else's.
    """
    if who.role is not Role.OPERATOR:
        raise ApiError(403, "needs an operator's key", "forbidden")
    return who


ServiceDep = Annotated[Service, Depends(get_service)]
CurrentUser = Annotated[Principal, Depends(current_user)]
OperatorUser = Annotated[Principal, Depends(require_operator)]
